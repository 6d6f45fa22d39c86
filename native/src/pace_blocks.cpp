// Saving residents to host memory as one block, and loading rows of a block into free cells.
//
// A block holds what any position can be computed from: references as they are stored, and values. They are
// copied byte for byte, in runs of neighbouring cells; on loading, keys are rotated from the references by the
// graph that renumbering uses, so that both give the same bits.
#include "pace_blocks.h"

#include "pace_plan.h"
#include "pace_status.h"

#include <algorithm>
#include <cstring>

namespace {

const char     block_magic[8]   = "PACEKVB";
const uint32_t block_version    = 1;
const size_t   bytes_not_summed = offsetof(pace_block_header, identity);

size_t row_bytes(const ggml_tensor * tensor) {
    return ggml_row_size(tensor->type, tensor->ne[0]);
}

struct run_of_cells {
    size_t   row;  // of the block
    uint32_t cell;
    uint32_t n;
};

// Neighbouring rows in neighbouring cells. rows: NULL: from 0 on.
std::vector<run_of_cells> runs_of(const uint32_t * rows, const std::vector<uint32_t> & cells) {
    std::vector<run_of_cells> result;
    for (uint32_t i = 0; i < cells.size(); ++i) {
        const size_t row  = rows ? rows[i] : i;
        auto *       last = result.empty() ? nullptr : &result.back();
        if (last && last->row + last->n == row && last->cell + last->n == cells[i]) {
            ++last->n;
        } else {
            result.push_back({ row, cells[i], 1 });
        }
    }
    return result;
}

// Where each part of a block begins.
struct block_layout {
    size_t              tokens;
    std::vector<size_t> references;  // [layer]
    std::vector<size_t> values;      // [layer]
    size_t              counts;      // of layers one after another: number of the layer, then a count a token
    size_t              end;
};

size_t padded(size_t size) {
    return (size + 7) / 8 * 8;
}

block_layout layout_of(const pace_cache & cache, size_t n_tokens, size_t n_counted) {
    block_layout layout;
    layout.tokens = padded(sizeof(pace_block_header));
    size_t at     = padded(layout.tokens + n_tokens * sizeof(pace_block_token));
    for (const auto & layer : pace_access::layers(*cache.kv)) {
        layout.references.push_back(at);
        at = padded(at + n_tokens * ggml_row_size(cache.reference_type, layer.k->ne[0]));
    }
    for (const auto & layer : pace_access::layers(*cache.kv)) {
        layout.values.push_back(at);
        at = padded(at + n_tokens * row_bytes(layer.v));
    }
    layout.counts = at;
    layout.end    = at + n_counted * padded(sizeof(uint32_t) + n_tokens * sizeof(float));
    return layout;
}

// Copies rows of a tensor that has one a cell.
void read_rows(const ggml_tensor * tensor, const std::vector<run_of_cells> & runs, uint8_t * to) {
    for (const auto & run : runs) {
        ggml_backend_tensor_get(tensor, to + run.row * row_bytes(tensor), run.cell * tensor->nb[1],
                                run.n * row_bytes(tensor));
    }
}

void write_rows(ggml_tensor * tensor, const std::vector<run_of_cells> & runs, const uint8_t * from) {
    for (const auto & run : runs) {
        ggml_backend_tensor_set(tensor, from + run.row * row_bytes(tensor), run.cell * tensor->nb[1],
                                run.n * row_bytes(tensor));
    }
}

// The references of a group lie side by side in one row a cell. In a block every layer has its own, so that it
// does not matter how layers were put on devices.
template <typename F> void for_each_layer_part(const pace_layer_group & group, const run_of_cells & run, F && f) {
    const auto size = ggml_row_size(group.reference->type, group.n_embd);
    for (uint32_t k = 0; k < run.n; ++k) {
        for (size_t i = 0; i < group.layers.size(); ++i) {
            f(group.layers[i], run.row + k, (k * group.layers.size() + i) * size, size);
        }
    }
}

void read_references(const pace_layer_group &          group,
                     const std::vector<run_of_cells> & runs,
                     const block_layout &              layout,
                     uint8_t *                         block) {
    for (const auto & run : runs) {
        std::vector<uint8_t> rows(run.n * row_bytes(group.reference));
        ggml_backend_tensor_get(group.reference, rows.data(), run.cell * group.reference->nb[1], rows.size());
        for_each_layer_part(group, run, [&](uint32_t layer, size_t row, size_t offset, size_t size) {
            memcpy(block + layout.references[layer] + row * size, rows.data() + offset, size);
        });
    }
}

void write_references(const pace_layer_group &          group,
                      const std::vector<run_of_cells> & runs,
                      const block_layout &              layout,
                      const uint8_t *                   block) {
    for (const auto & run : runs) {
        std::vector<uint8_t> rows(run.n * row_bytes(group.reference));
        for_each_layer_part(group, run, [&](uint32_t layer, size_t row, size_t offset, size_t size) {
            memcpy(rows.data() + offset, block + layout.references[layer] + row * size, size);
        });
        ggml_backend_tensor_set(group.reference, rows.data(), run.cell * group.reference->nb[1], rows.size());
    }
}

// Values that are stored by columns: element i of a cell lies at (i * n_cells + cell).
template <typename F> void for_each_column_part(const ggml_tensor * v, const std::vector<run_of_cells> & runs, F && f) {
    const auto n_cells = (size_t) v->ne[1];
    const auto size    = ggml_type_size(v->type);
    for (int64_t i = 0; i < v->ne[0]; ++i) {
        for (const auto & run : runs) {
            f((size_t) i, run, (i * n_cells + run.cell) * size, run.n * size);
        }
    }
}

void read_columns(const ggml_tensor * v, const std::vector<run_of_cells> & runs, uint8_t * to) {
    const auto           size = ggml_type_size(v->type);
    std::vector<uint8_t> part(v->ne[1] * size);
    for_each_column_part(v, runs, [&](size_t i, const run_of_cells & run, size_t offset, size_t n_bytes) {
        ggml_backend_tensor_get(v, part.data(), offset, n_bytes);
        for (uint32_t k = 0; k < run.n; ++k) {
            memcpy(to + (run.row + k) * row_bytes(v) + i * size, part.data() + k * size, size);
        }
    });
}

void write_columns(ggml_tensor * v, const std::vector<run_of_cells> & runs, const uint8_t * from) {
    const auto           size = ggml_type_size(v->type);
    std::vector<uint8_t> part(v->ne[1] * size);
    for_each_column_part(v, runs, [&](size_t i, const run_of_cells & run, size_t offset, size_t n_bytes) {
        for (uint32_t k = 0; k < run.n; ++k) {
            memcpy(part.data() + k * size, from + (run.row + k) * row_bytes(v) + i * size, size);
        }
        ggml_backend_tensor_set(v, part.data(), offset, n_bytes);
    });
}

std::vector<int> counted_layers(const pace_cache & cache, const std::vector<uint32_t> & cells) {
    std::vector<int> result;
    for (const auto & layer : pace_access::layers(*cache.kv)) {
        const auto il = (int) layer.il;
        if (cache.counts && std::any_of(cells.begin(), cells.end(),
                                        [&](uint32_t cell) { return cache.counts->logarithm(il, cell) != 0.0f; })) {
            result.push_back(il);
        }
    }
    return result;
}

pace_block_header header_of(const pace_cache & cache, const pace_identity & identity, size_t n_tokens) {
    pace_block_header header = {};
    memcpy(header.magic, block_magic, sizeof(header.magic));
    header.version        = block_version;
    header.header_bytes   = sizeof(header);
    header.identity       = identity;
    header.shape          = cache.shape;
    header.n_tokens       = (uint32_t) n_tokens;
    header.n_layers       = (uint32_t) pace_access::layers(*cache.kv).size();
    header.key_type       = cache.kv->type_k();
    header.value_type     = cache.kv->type_v();
    header.reference_type = cache.reference_type;
    return header;
}

void fill_block(pace_cache &                  cache,
                const std::vector<uint32_t> & cells,
                const std::vector<int> &      counted,
                const block_layout &          layout,
                pace_block_header             header,
                uint8_t *                     out) {
    const auto & table = cache.cells();
    const auto   runs  = runs_of(nullptr, cells);
    for (size_t i = 0; i < cells.size(); ++i) {
        const pace_block_token token = { table.ext_get(cells[i]).tok, table.pos_get(cells[i]),
                                         cache.cell_references[cells[i]].position };
        memcpy(out + layout.tokens + i * sizeof(token), &token, sizeof(token));
    }
    for (const auto & group : cache.groups) {
        read_references(group, runs, layout, out);
    }
    const auto & layers = pace_access::layers(*cache.kv);
    for (size_t i = 0; i < layers.size(); ++i) {
        pace_access::v_transposed(*cache.kv) ? read_columns(layers[i].v, runs, out + layout.values[i]) :
                                               read_rows(layers[i].v, runs, out + layout.values[i]);
    }
    size_t at = layout.counts;
    for (const auto il : counted) {
        const auto number = (uint32_t) il;
        memcpy(out + at, &number, sizeof(number));
        for (size_t i = 0; i < cells.size(); ++i) {
            const float logarithm = cache.counts->logarithm(il, cells[i]);
            memcpy(out + at + sizeof(number) + i * sizeof(logarithm), &logarithm, sizeof(logarithm));
        }
        at += padded(sizeof(number) + cells.size() * sizeof(float));
    }
    header.n_counted = (uint32_t) counted.size();
    header.n_bytes   = layout.end;
    memcpy(out, &header, sizeof(header));
    header.checksum = pace_checksum(out + bytes_not_summed, layout.end - bytes_not_summed);
    memcpy(out, &header, sizeof(header));
}

void zero_padding(const pace_cache & cache, const block_layout & layout, size_t n_tokens, uint8_t * out) {
    memset(out, 0, layout.tokens);
    size_t end = layout.tokens + n_tokens * sizeof(pace_block_token);
    memset(out + end, 0, padded(end) - end);
    const auto & layers = pace_access::layers(*cache.kv);
    for (size_t i = 0; i < layers.size(); ++i) {
        end = layout.references[i] + n_tokens * ggml_row_size(cache.reference_type, layers[i].k->ne[0]);
        memset(out + end, 0, padded(end) - end);
        end = layout.values[i] + n_tokens * row_bytes(layers[i].v);
        memset(out + end, 0, padded(end) - end);
    }
    memset(out + layout.counts, 0, layout.end - layout.counts);
}

// Checks everything that can be wrong with a block; throws PACE_BAD_BLOCK.
pace_block_header checked_header(const pace_cache &    cache,
                                 const pace_identity & identity,
                                 const uint8_t *       data,
                                 uint64_t              size) {
    pace_block_header header;
    if (size < sizeof(header)) {
        pace_fail(PACE_BAD_BLOCK, "the block is truncated: %llu bytes", (unsigned long long) size);
    }
    memcpy(&header, data, sizeof(header));
    if (memcmp(header.magic, block_magic, sizeof(header.magic)) != 0) {
        pace_fail(PACE_BAD_BLOCK, "this is no block of saved keys and values");
    }
    if (header.version != block_version) {
        pace_fail(PACE_BAD_BLOCK, "the block has version %u, this library reads %u", header.version, block_version);
    }
    if (header.header_bytes != sizeof(header)) {
        pace_fail(PACE_BAD_BLOCK, "the block's header has %u bytes, not %zu", header.header_bytes, sizeof(header));
    }
    if (header.n_bytes != size) {
        pace_fail(PACE_BAD_BLOCK, "the block is truncated: %llu of %llu bytes", (unsigned long long) size,
                  (unsigned long long) header.n_bytes);
    }
    if (memcmp(header.identity.model, identity.model, sizeof(identity.model)) != 0) {
        pace_fail(PACE_BAD_BLOCK, "the block was saved from another model");
    }
    if (memcmp(header.identity.build, identity.build, sizeof(identity.build)) != 0) {
        pace_fail(PACE_BAD_BLOCK, "the block was saved by another build");
    }
    const auto expected = header_of(cache, identity, header.n_tokens);
    if (header.n_layers != expected.n_layers || header.shape != expected.shape) {
        pace_fail(PACE_BAD_BLOCK, "the block's keys and values have another shape");
    }

    const struct {
        const char * name;
        int32_t      here;
        int32_t      there;
    } types[] = {
        { "keys",           expected.key_type,       header.key_type       },
        { "values",         expected.value_type,     header.value_type     },
        { "reference keys", expected.reference_type, header.reference_type },
    };

    for (const auto & type : types) {
        if (type.here != type.there) {
            pace_fail(PACE_BAD_BLOCK, "the block has %s of ggml type %d, the cache of type %d", type.name, type.there,
                      type.here);
        }
    }
    if (header.n_counted > header.n_layers || layout_of(cache, header.n_tokens, header.n_counted).end != size ||
        header.checksum != pace_checksum(data + bytes_not_summed, size - bytes_not_summed)) {
        pace_fail(PACE_BAD_BLOCK, "the block is broken: its checksum is wrong");
    }
    return header;
}

pace_block_token token_of(const block_layout & layout, const uint8_t * data, size_t row) {
    pace_block_token token;
    memcpy(&token, data + layout.tokens + row * sizeof(token), sizeof(token));
    return token;
}

void check_block_rows(const uint32_t * rows, uint32_t n, uint32_t n_tokens) {
    if (!rows && n != n_tokens) {
        pace_fail(PACE_INVALID_ARGUMENT, "%u rows without a list of them; the block has %u", n, n_tokens);
    }
    for (uint32_t i = 0; rows && i < n; ++i) {
        if (rows[i] >= n_tokens || (i > 0 && rows[i] <= rows[i - 1])) {
            pace_fail(PACE_INVALID_ARGUMENT, "rows must increase strictly and stay under %u; number %u is %u", n_tokens,
                      i, rows[i]);
        }
    }
}

void check_free_positions(const pace_cache & cache, llama_seq_id seq, const llama_pos * positions, uint32_t n) {
    std::vector<llama_pos> taken;
    for (const auto & resident : cache.cells().seq_pos_get(seq)) {
        taken.push_back(resident.first);
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (std::binary_search(taken.begin(), taken.end(), positions[i])) {
            pace_fail(PACE_INVALID_ARGUMENT, "position %d has a resident already", positions[i]);
        }
    }
}

std::vector<uint32_t> free_cells(const pace_cache & cache, uint32_t n) {
    const auto &          cells = cache.cells();
    std::vector<uint32_t> result;
    for (uint32_t cell = 0; cell < cells.size() && result.size() < n; ++cell) {
        if (cells.is_empty(cell)) {
            result.push_back(cell);
        }
    }
    if (result.size() < n) {
        pace_fail(PACE_NO_ROOM, "%u rows to load, and %zu cells are free", n, result.size());
    }
    return result;
}

struct rows_to_load {
    const uint8_t *       data;
    block_layout          layout;
    const uint32_t *      rows;  // NULL: all
    const llama_pos *     positions;
    std::vector<uint32_t> cells;

    pace_block_token token(size_t i) const { return token_of(layout, data, rows ? rows[i] : i); }
};

// Fills cells that nobody has yet.
void fill_cells(pace_cache & cache, const rows_to_load & what) {
    const auto   runs   = runs_of(what.rows, what.cells);
    const auto & layers = pace_access::layers(*cache.kv);
    pace_plan    plan   = {};
    for (size_t i = 0; i < what.cells.size(); ++i) {
        plan.keys.cell.push_back((int32_t) what.cells[i]);
        plan.keys.delta.push_back(what.positions[i] - what.token(i).reference_position);
    }
    if (cache.fails_at(PACE_FAIL_PLAN)) {
        pace_fail(PACE_NO_MEMORY, "no memory to plan");
    }
    for (const auto & group : cache.groups) {
        write_references(group, runs, what.layout, what.data);
    }
    for (size_t i = 0; i < layers.size(); ++i) {
        pace_access::v_transposed(*cache.kv) ? write_columns(layers[i].v, runs, what.data + what.layout.values[i]) :
                                               write_rows(layers[i].v, runs, what.data + what.layout.values[i]);
    }
    pace_move_rows(cache, plan);
}

void occupy_cells(pace_cache & cache, llama_seq_id seq, const rows_to_load & what) {
    auto & cells = pace_access::cells(*cache.kv);
    for (size_t i = 0; i < what.cells.size(); ++i) {
        const auto        cell  = what.cells[i];
        const auto        token = what.token(i);
        llama_kv_cell_ext ext   = {};
        ext.tok                 = token.token;
        cells.pos_set(cell, what.positions[i]);
        cells.ext_set(cell, ext);
        cells.seq_add(cell, seq);
        cache.cell_references[cell] = { cells.stamp_get(cell), token.reference_position, what.positions[i] };
    }
}

void load_counts(pace_cache & cache, const pace_block_header & header, const rows_to_load & what) {
    size_t at = what.layout.counts;
    for (uint32_t k = 0; k < header.n_counted; ++k) {
        uint32_t number;
        memcpy(&number, what.data + at, sizeof(number));
        std::vector<float> logarithms;
        for (size_t i = 0; i < what.cells.size(); ++i) {
            const size_t row = what.rows ? what.rows[i] : i;
            float        logarithm;
            memcpy(&logarithm, what.data + at + sizeof(number) + row * sizeof(logarithm), sizeof(logarithm));
            logarithms.push_back(logarithm);
        }
        pace_count_logarithms(cache, (int) number, what.cells, logarithms);
        at += padded(sizeof(number) + header.n_tokens * sizeof(float));
    }
}

}  // namespace

int32_t pace_save(struct pace_cache *          cache,
                  llama_seq_id                 seq,
                  const uint32_t *             ranks,
                  uint32_t                     n,
                  uint32_t                     n_residents,
                  const struct pace_identity * identity,
                  uint8_t *                    out,
                  uint64_t                     capacity,
                  uint64_t *                   n_out) {
    return pace_guard([&] {
        if (!cache || !identity || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_save: an argument is NULL");
        }
        pace_check_ranks(*cache, seq, ranks, n, n_residents);
        const auto            ranked = pace_cells_in_order(*cache, seq);
        std::vector<uint32_t> cells;
        for (uint32_t i = 0; i < n; ++i) {
            cells.push_back(ranked[ranks[i]]);
        }
        const auto counted = counted_layers(*cache, cells);
        const auto layout  = layout_of(*cache, n, counted.size());
        *n_out             = layout.end;
        if (capacity == 0 && !out) {
            return;
        }
        if (capacity < layout.end) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "a block of %zu bytes does not fit in %llu", layout.end,
                      (unsigned long long) capacity);
        }
        if (cache->fails_at(PACE_FAIL_PLAN)) {
            pace_fail(PACE_NO_MEMORY, "no memory to plan");
        }
        llama_synchronize(cache->ctx);
        pace_keeps_residents([&] { pace_capture(*cache, cells); });
        zero_padding(*cache, layout, n, out);
        fill_block(*cache, cells, counted, layout, header_of(*cache, *identity, n), out);
    });
}

int32_t pace_read_block(const struct pace_cache *    cache,
                        const struct pace_identity * identity,
                        const uint8_t *              data,
                        uint64_t                     size,
                        struct pace_resident *       out,
                        uint32_t                     capacity,
                        uint32_t *                   n_out) {
    return pace_guard([&] {
        if (!cache || !identity || !data || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_read_block: an argument is NULL");
        }
        const auto header = checked_header(*cache, *identity, data, size);
        *n_out            = header.n_tokens;
        if (capacity == 0 && !out) {
            return;
        }
        if (capacity < header.n_tokens) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "%u tokens do not fit in %u", header.n_tokens, capacity);
        }
        const auto layout = layout_of(*cache, header.n_tokens, header.n_counted);
        for (uint32_t i = 0; i < header.n_tokens; ++i) {
            const auto token = token_of(layout, data, i);
            out[i]           = { token.position, -1, token.token, token.reference_position };
        }
    });
}

int32_t pace_load(struct pace_cache *          cache,
                  llama_seq_id                 seq,
                  const struct pace_identity * identity,
                  const uint8_t *              data,
                  uint64_t                     size,
                  const uint32_t *             rows,
                  uint32_t                     n,
                  const int32_t *              positions,
                  uint32_t                     n_residents,
                  struct pace_change *         change) {
    return pace_guard([&] {
        const auto start = ggml_time_us();
        if (!cache || !identity || !data) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_load: an argument is NULL");
        }
        pace_check_ranks(*cache, seq, nullptr, 0, n_residents);
        const auto header = checked_header(*cache, *identity, data, size);
        check_block_rows(rows, n, header.n_tokens);
        pace_check_positions(positions, n);
        check_free_positions(*cache, seq, positions, n);
        const rows_to_load what = { data, layout_of(*cache, header.n_tokens, header.n_counted), rows, positions,
                                    free_cells(*cache, n) };
        llama_synchronize(cache->ctx);
        pace_keeps_residents([&] { fill_cells(*cache, what); });
        occupy_cells(*cache, seq, what);
        load_counts(*cache, header, what);
        if (change) {
            *change           = {};
            change->n_before  = n_residents;
            change->n_after   = n_residents + n;
            change->n_rotated = n;
            change->n_moved   = n;
            change->micros    = ggml_time_us() - start;
        }
    });
}
