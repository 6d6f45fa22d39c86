// The C API of PACE: retain, renumber, observe and inspect the KV cache of a llama_context.
//
// Words: a *resident* is a token that is in the cache now; its *rank* is its place among the residents
// of its sequence in position order; its *cell* is the slot of the KV buffer that holds it.
//
// Every function that can fail returns a pace_status, and none aborts the process for something that a
// caller can cause. After a status other than PACE_OK the cache is as it was before the call, with one
// exception that is named at PACE_CACHE_LOST. pace_last_message() says what happened in one line.
//
// A pace_cache must be used by the thread that uses its llama_context; pace_abort() alone may be called
// from any thread, also while llama_decode() runs.
#ifndef PACE_H
#define PACE_H

#include "llama.h"

#include <stdint.h>

#ifdef __cplusplus
#    define PACE_API extern "C" LLAMA_API
#else
#    define PACE_API LLAMA_API
#endif

// Changes whenever a struct or the meaning of a function below changes.
#define PACE_API_VERSION 3

enum pace_status {
    PACE_OK               = 0,
    PACE_INVALID_ARGUMENT = 1,   // an argument is out of range or inconsistent
    PACE_UNSUPPORTED      = 2,   // this context cannot be handled; pace_query() says why
    PACE_MISMATCH         = 3,   // the caller was built against another version of a struct
    PACE_STALE            = 4,   // the caller's count of residents is not the cache's
    PACE_BUFFER_TOO_SMALL = 5,   // the result does not fit; the needed count was stored
    PACE_SHARED_CELL      = 6,   // a cell that would change position belongs to another sequence too
    PACE_NO_MEMORY        = 7,   // host or device memory could not be allocated
    PACE_CACHE_LOST       = 8,   // a device failed half-way through a move or shift: the cache has been emptied
    PACE_INTERNAL         = 9,   // a fault of this library
    PACE_NO_ROOM          = 10,  // fewer cells are free than are needed
    PACE_BAD_BLOCK        = 11,  // not a saved block, a broken one, or one of another model or build
    PACE_DEVICE_FAILED    = 12,  // a device failed; nothing that was in the cache has changed
};

enum pace_rows {
    PACE_ROWS_KEY       = 0,  // keys as cached, rotated to their positions
    PACE_ROWS_VALUE     = 1,  // values
    PACE_ROWS_REFERENCE = 2,  // reference keys, rotated to their reference positions
};

// What pace_read_attention() adds up.
enum pace_attention_part {
    PACE_ATTENTION_TOTAL   = 0,  // everything since the token came in, decayed
    PACE_ATTENTION_STEPS   = 1,  // the last n steps
    PACE_ATTENTION_QUERIES = 2,  // the fewest last steps that have n observed query rows together
};

// Where pace_fail_next() makes the next call that gets there fail. For tests of callers.
enum pace_fail_point {
    PACE_FAIL_NOWHERE  = 0,
    PACE_FAIL_PLAN     = 1,  // before anything is changed by a retain, renumber, write, save or load: PACE_NO_MEMORY
    PACE_FAIL_ALLOCATE = 2,  // at the allocation of a graph, also of one that reads: PACE_NO_MEMORY
    PACE_FAIL_COMPUTE  = 3,  // after the device was told to move rows: PACE_CACHE_LOST from a renumber, a write or a
                             // settle; PACE_DEVICE_FAILED from a save, a load, or where references are only taken
};

// What a saved block belongs to, as the caller tells one model and one build from another, such as by a hash.
struct pace_identity {
    uint8_t model[32];
    uint8_t build[32];
};

// sizeof() of every struct that crosses the border, as the caller knows it.
struct pace_sizes {
    uint32_t pace_capabilities;
    uint32_t pace_options;
    uint32_t pace_resident;
    uint32_t pace_bytes;
    uint32_t pace_change;
    uint32_t pace_attention_options;
    uint32_t pace_identity;
    uint32_t llama_model_params;
    uint32_t llama_context_params;
    uint32_t llama_batch;
};

struct pace_capabilities {
    int32_t  supported;     // 1: every operation below works on this context; but Grok's attention is not observed
    uint32_t n_cells;       // size of the KV buffer in cells
    uint32_t n_layers;      // layers that have keys and values
    uint32_t n_seq;         // sequences that the context was made for
    uint32_t n_rot;         // dimensions of a head that RoPE turns
    int32_t  rope_type;     // enum llama_rope_type
    int32_t  key_type;      // enum ggml_type of the K cache
    int32_t  value_type;    // enum ggml_type of the V cache
    int32_t  flash_attn;    // 1: V rows are stored as rows; 0: transposed
    uint32_t max_position;  // positions at or above this rotate by other factors than the context uses; 0: none
    char     reason[256];   // why not, if not supported; else empty
};

struct pace_options {
    int32_t reference_type;  // enum ggml_type: F16 or F32; -1: F16, or F32 where the K cache is wider than F16
};

struct pace_resident {
    int32_t position;            // its key is rotated to this position now
    int32_t cell;                // index into the KV buffer
    int32_t token;               // token id
    int32_t reference_position;  // its reference key is rotated to this position; -1: not captured yet
};

// Bytes as allocated.
struct pace_bytes {
    uint64_t keys;
    uint64_t values;
    uint64_t references;
    uint64_t scratch;    // compute buffers of renumbering, allocated when first used
    uint64_t attention;  // masses that wait on the device; 0 while attention is not observed
};

// What of the attention is observed. A step is one micro-batch: a generated token, or a piece of a prompt.
struct pace_attention_options {
    uint32_t         n_queries;     // last query rows of each micro-batch that are observed; 0: all
    int32_t          min_distance;  // attention across fewer positions is not counted
    double           decay;         // what is left of a total after each later token, 0 ... 1; 1: all
    uint32_t         window;        // steps that are remembered one by one, at least 1
    uint32_t         n_layers;      // 0: all layers
    const uint32_t * layers;        // strictly increasing; they count the layers that have a cache
};

struct pace_change {
    uint32_t n_before;    // residents of the sequence before and after
    uint32_t n_after;
    uint32_t n_rotated;   // keys that were rotated and stored
    uint32_t n_moved;     // residents that went to another cell
    uint32_t n_captured;  // references that were taken for the first time
    uint32_t reserved;
    int64_t  micros;      // wall time of the call
};

struct pace_cache;

// A static string such as "STALE"; never NULL.
PACE_API const char * pace_status_name(int32_t status);

// What went wrong in the last failed call of this thread, in one line; never NULL.
PACE_API const char * pace_last_message(void);

// Refuses with PACE_MISMATCH and the struct's name if version or any size differs from this library's.
PACE_API int32_t pace_handshake(uint32_t version, const struct pace_sizes * caller);

// Whether the context can be handled, and if not, which property stops it. Changes nothing.
PACE_API int32_t pace_query(const struct llama_context * ctx, struct pace_capabilities * out);

// Attaches to a context and allocates the reference keys on the devices that hold the keys. The context
// must outlive the pace_cache. Installs the context's abort callback.
PACE_API int32_t pace_open(struct llama_context * ctx, const struct pace_options * options, struct pace_cache ** out);

// NULL is allowed.
PACE_API void pace_close(struct pace_cache * cache);

// Residents of a sequence in position order. *n_out is the count, also with PACE_BUFFER_TOO_SMALL; out may
// be NULL when capacity is 0.
PACE_API int32_t pace_residents(const struct pace_cache * cache,
                                llama_seq_id              seq,
                                struct pace_resident *    out,
                                uint32_t                  capacity,
                                uint32_t *                n_out);

PACE_API int32_t pace_bytes_held(const struct pace_cache * cache, struct pace_bytes * out);

// Rows of one layer for all residents of a sequence in position order, as F32: n_residents * row floats,
// head-major, dequantised. For PACE_ROWS_REFERENCE every resident must have been captured. layer counts the
// layers that have a cache, from 0.
PACE_API int32_t pace_read_rows(const struct pace_cache * cache,
                                llama_seq_id              seq,
                                int32_t                   rows,
                                uint32_t                  layer,
                                float *                   out,
                                uint64_t                  capacity,
                                uint64_t *                n_out);

// Keys of one layer for all residents of a sequence in position order, as they would be at position 0: rotated
// back from their references, as F32, head-major. Takes references of residents that have none yet; changes nothing
// else, also where a device fails (PACE_DEVICE_FAILED).
PACE_API int32_t pace_read_plain_keys(struct pace_cache * cache,
                                      llama_seq_id        seq,
                                      uint32_t            layer,
                                      float *             out,
                                      uint64_t            capacity,
                                      uint64_t *          n_out);

// Puts rows in place of those that some residents have in one layer; positions, cells and the other layers stay.
// ranks: n strictly increasing ranks; n_residents: how many residents the caller believes there are.
// keys: as at position 0, n rows; they become the references, and are rotated to the residents' positions.
// values: n rows as pace_read_rows() gives them. counts: how many tokens each row stands for, at least 1: its
// softmax weights are those of so many equal rows. NULL: one each. A row keeps its count wherever it moves,
// until its token is evicted.
PACE_API int32_t pace_write_rows(struct pace_cache * cache,
                                 llama_seq_id        seq,
                                 uint32_t            layer,
                                 const uint32_t *    ranks,
                                 uint32_t            n,
                                 uint32_t            n_residents,
                                 const float *       keys,
                                 const float *       values,
                                 const float *       counts);

// Keeps the residents of the given ranks and evicts all others of the sequence. Positions, cells and keys
// stay. keep: n_keep strictly increasing ranks; n_residents: how many residents the caller believes there
// are. Metadata only. change may be NULL.
PACE_API int32_t pace_retain(struct pace_cache *  cache,
                             llama_seq_id         seq,
                             const uint32_t *     keep,
                             uint32_t             n_keep,
                             uint32_t             n_residents,
                             struct pace_change * change);

// As pace_retain(), and then gives the kept residents the positions first_position, first_position + 1, ...
// in their order, rotates their keys from the references to match, and moves keys, values and references
// so that the live cells are 0 ... n - 1: one operation, all or nothing. Cells of other sequences keep
// their positions and follow behind. Any number of renumberings leaves the keys of one rotation.
PACE_API int32_t pace_renumber(struct pace_cache *  cache,
                               llama_seq_id         seq,
                               const uint32_t *     keep,
                               uint32_t             n_keep,
                               uint32_t             n_residents,
                               int32_t              first_position,
                               struct pace_change * change);

// As pace_renumber(), to given positions: n_keep of them, from 0 on and strictly increasing. They may leave
// gaps, into which pace_load() can put what comes between.
PACE_API int32_t pace_place(struct pace_cache *  cache,
                            llama_seq_id         seq,
                            const uint32_t *     keep,
                            uint32_t             n_keep,
                            uint32_t             n_residents,
                            const int32_t *      positions,
                            struct pace_change * change);

// Copies residents to host memory as one block: their reference keys, values, tokens and positions, of all layers,
// in position order. Takes references of residents that have none yet; changes nothing else. ranks: n strictly
// increasing ranks; n_residents: how many residents the caller believes there are. *n_out is the size in bytes, also
// with PACE_BUFFER_TOO_SMALL; out may be NULL when capacity is 0.
PACE_API int32_t pace_save(struct pace_cache *          cache,
                           llama_seq_id                 seq,
                           const uint32_t *             ranks,
                           uint32_t                     n,
                           uint32_t                     n_residents,
                           const struct pace_identity * identity,
                           uint8_t *                    out,
                           uint64_t                     capacity,
                           uint64_t *                   n_out);

// Whether a block is whole and fits this cache, and which tokens it holds, in position order: the cell of each is
// -1. *n_out is their count, also with PACE_BUFFER_TOO_SMALL; out may be NULL when capacity is 0.
PACE_API int32_t pace_read_block(const struct pace_cache *    cache,
                                 const struct pace_identity * identity,
                                 const uint8_t *              data,
                                 uint64_t                     size,
                                 struct pace_resident *       out,
                                 uint32_t                     capacity,
                                 uint32_t *                   n_out);

// Brings rows of a block back into free cells of a sequence at the given positions, as its tokens: keys are rotated
// there from the references, once. rows: n strictly increasing rows of the block, or NULL for all of its n.
// positions: n of them, from 0 on and strictly increasing, none of which a resident of the sequence has. Residents
// are not touched. Loaded at the position that it was saved at, a key is what a renumbering would leave there.
PACE_API int32_t pace_load(struct pace_cache *          cache,
                           llama_seq_id                 seq,
                           const struct pace_identity * identity,
                           const uint8_t *              data,
                           uint64_t                     size,
                           const uint32_t *             rows,
                           uint32_t                     n,
                           const int32_t *              positions,
                           uint32_t                     n_residents,
                           struct pace_change *         change);

// Applies the shifts of llama_memory_seq_add() that upstream still owes its keys, now and to the end: pace_abort()
// does not cut them short, which would leave some layers shifted and the shift still owed. For callers that
// shift by upstream's own means; pace_renumber() needs no such thing. Upstream's own means also turn the keys of
// layers that an architecture leaves unrotated by a rule of its own (SmolLM3, Llama 4, AFMoE), and break quantised keys
// of which only a part of each head is rotated: do not shift those. PACE_CACHE_LOST if the shift failed: some layers
// may have been shifted.
PACE_API int32_t pace_settle(struct pace_cache * cache);

// From the next llama_decode() on, adds up how much attention each resident receives: softmax weights of the
// chosen layers, summed over heads, layers and query rows. Flash attention stays on: the weights are computed
// beside it. Starts from zero, also when attention was observed before. NULL: stops, and frees the memory.
PACE_API int32_t pace_observe(struct pace_cache * cache, const struct pace_attention_options * options);

// The mass that each resident of a sequence has received, in position order. A token's mass is its own: nothing
// is carried over from what was in its cell before, and it moves along when the token does. n is for the parts
// that have one; there are never more steps than the window. PACE_INVALID_ARGUMENT if attention is not observed.
PACE_API int32_t pace_read_attention(struct pace_cache * cache,
                                     llama_seq_id        seq,
                                     int32_t             part,
                                     uint32_t            n,
                                     double *            out,
                                     uint32_t            capacity,
                                     uint32_t *          n_out);

// Sets what PACE_ATTENTION_TOTAL gives for each resident of a sequence, in position order, such as what was read
// before they were saved: they go on from there. n_residents: how many residents the caller believes there are.
PACE_API int32_t pace_write_attention(struct pace_cache * cache,
                                      llama_seq_id        seq,
                                      const double *      totals,
                                      uint32_t            n_residents);

// Makes a running llama_decode() of this context return 2 as soon as its backend looks (CPU: within the
// current graph), and every later one, until pace_abort_clear(). Callable from any thread.
PACE_API void pace_abort(struct pace_cache * cache);
PACE_API void pace_abort_clear(struct pace_cache * cache);

// Makes the next call that gets to a point fail there, once.
PACE_API int32_t pace_fail_next(struct pace_cache * cache, int32_t point);

#endif  // PACE_H
