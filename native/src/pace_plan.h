// What one retain or renumber does to each cell, worked out before anything is changed.
#pragma once

#include "pace_cache.h"
#include "pace_status.h"

#include <vector>

// A live cell after the operation: cell number i of the new layout is entry i.
struct pace_entry {
    uint32_t                  cell;          // where it is now
    llama_pos                 position;      // now
    llama_pos                 key_position;  // that its key is rotated to: without a shift that upstream still owes it
    llama_pos                 new_position;  // then
    llama_kv_cells::seq_set_t sequences;
    llama_kv_cell_ext         ext;
};

// Rows that go from one cell to another; a row may come from where another goes.
struct pace_moves {
    std::vector<int32_t> source;       // cell now
    std::vector<int64_t> destination;  // cell then, increasing

    void add(uint32_t from, uint32_t to) {
        source.push_back((int32_t) from);
        destination.push_back(to);
    }

    size_t size() const { return source.size(); }
};

// Keys that are computed from their references, once those are where they belong.
struct pace_turns {
    std::vector<int32_t> cell;   // then, increasing
    std::vector<int32_t> delta;  // positions to rotate the reference by

    size_t size() const { return cell.size(); }
};

struct pace_plan {
    std::vector<pace_entry> entries;  // in the new order of cells
    size_t                  n_kept;   // of the sequence; entries of other sequences follow

    size_t n_moved;                   // entries that change their cell

    pace_moves captures;              // keys without a reference, to the reference's new cell
    pace_moves references;            // that change their cell
    pace_moves values;                // likewise
    pace_turns keys;

    // Cells now, in the new order of cells.
    std::vector<uint32_t> sources() const {
        std::vector<uint32_t> result;
        for (const auto & entry : entries) {
            result.push_back(entry.cell);
        }
        return result;
    }
};

// Checks the ranks against the cache; throws PACE_INVALID_ARGUMENT or PACE_STALE.
void pace_check_ranks(const pace_cache & cache,
                      llama_seq_id       seq,
                      const uint32_t *   keep,
                      uint32_t           n_keep,
                      uint32_t           n_residents);

// Throws PACE_INVALID_ARGUMENT unless positions are from 0 on and increase strictly.
void pace_check_positions(const llama_pos * positions, uint32_t n);

// positions: n_keep of them, checked. Throws PACE_SHARED_CELL.
pace_plan pace_plan_renumber(const pace_cache & cache,
                             llama_seq_id       seq,
                             const uint32_t *   keep,
                             uint32_t           n_keep,
                             const llama_pos *  positions);

// Cells of the residents of a sequence, in position order.
std::vector<uint32_t> pace_cells_in_order(const pace_cache & cache, llama_seq_id seq);

// Takes the references that some cells lack; positions, cells and keys stay. Throws as pace_move_rows().
void pace_capture(pace_cache & cache, const std::vector<uint32_t> & cells);

// Moves and rotates rows on the devices. Throws PACE_NO_MEMORY before anything was changed, and
// PACE_CACHE_LOST after a device failed half-way.
void pace_move_rows(pace_cache & cache, const pace_plan & plan);

// Empties the cache, after a device failed half-way: no row can be trusted then.
void pace_empty(pace_cache & cache);

// Runs body; a cache that is lost meanwhile is emptied.
template <typename F> void pace_empties_if_lost(pace_cache & cache, F && body) {
    try {
        std::forward<F>(body)();
    } catch (const pace_failure & failure) {
        if (failure.status == PACE_CACHE_LOST) {
            pace_empty(cache);
        }
        throw;
    }
}

// Notes how many tokens rows of a layer of the model stand for; NULL: one each.
void pace_count(pace_cache & cache, int il, const std::vector<uint32_t> & cells, const float * counts);

// The same by the logarithms of the counts.
void pace_count_logarithms(pace_cache &                  cache,
                           int                           il,
                           const std::vector<uint32_t> & cells,
                           const std::vector<float> &    logarithms);
