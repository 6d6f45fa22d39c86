#include "pace_plan.h"

#include "pace_status.h"

#include <algorithm>
#include <limits>

void pace_check_ranks(const pace_cache & cache,
                      llama_seq_id       seq,
                      const uint32_t *   keep,
                      uint32_t           n_keep,
                      uint32_t           n_residents) {
    pace_check_sequence(cache, seq);
    const size_t n_here = cache.cells().seq_pos_get(seq).size();
    if (n_residents != n_here) {
        pace_fail(PACE_STALE, "the caller counts %u residents, the cache %zu", n_residents, n_here);
    }
    if (n_keep > n_residents) {
        pace_fail(PACE_INVALID_ARGUMENT, "%u ranks of %u residents", n_keep, n_residents);
    }
    if (n_keep > 0 && !keep) {
        pace_fail(PACE_INVALID_ARGUMENT, "the ranks are NULL");
    }
    for (uint32_t i = 0; i < n_keep; ++i) {
        if (keep[i] >= n_residents || (i > 0 && keep[i] <= keep[i - 1])) {
            pace_fail(PACE_INVALID_ARGUMENT, "ranks must increase strictly and stay under %u; number %u is %u",
                      n_residents, i, keep[i]);
        }
    }
}

void pace_check_positions(const llama_pos * positions, uint32_t n) {
    if (n > 0 && !positions) {
        pace_fail(PACE_INVALID_ARGUMENT, "positions is NULL");
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (positions[i] < 0 || positions[i] == std::numeric_limits<llama_pos>::max() ||
            (i > 0 && positions[i] <= positions[i - 1])) {
            pace_fail(PACE_INVALID_ARGUMENT, "positions must be 0 to 2^31 - 2 and increase strictly; number %u is %d",
                      i, positions[i]);
        }
    }
}

std::vector<uint32_t> pace_cells_in_order(const pace_cache & cache, llama_seq_id seq) {
    std::vector<uint32_t> result;
    for (const auto & resident : cache.cells().seq_pos_get(seq)) {
        result.push_back(resident.second);
    }
    return result;
}

void pace_capture(pace_cache & cache, const std::vector<uint32_t> & cells) {
    const auto & table = cache.cells();
    pace_plan    plan  = {};
    for (const auto cell : cells) {
        if (!cache.is_captured(cell)) {
            plan.captures.add(cell, cell);
        }
    }
    if (plan.captures.size() == 0) {
        return;
    }
    llama_synchronize(cache.ctx);
    pace_move_rows(cache, plan);
    for (const auto cell : plan.captures.source) {
        const auto position         = table.pos_get(cell) - table.get_shift(cell);
        // A key that is not exactly what a rotation of its reference gives must be computed at the next renumbering.
        cache.cell_references[cell] = { table.stamp_get(cell), position, cache.reference_is_exact() ? position : -1 };
    }
}

static pace_entry entry_of(const llama_kv_cells & cells, uint32_t cell, llama_pos new_position) {
    const auto position = cells.pos_get(cell);
    return {
        cell, position, position - cells.get_shift(cell), new_position, cells.seq_get_all(cell), cells.ext_get(cell)
    };
}

// Kept residents in order, then cells of other sequences in the order of their cells.
static void list_entries(const pace_cache & cache,
                         llama_seq_id       seq,
                         const uint32_t *   keep,
                         uint32_t           n_keep,
                         const llama_pos *  positions,
                         pace_plan &        plan) {
    const auto & cells  = cache.cells();
    const auto   ranked = pace_cells_in_order(cache, seq);

    std::vector<bool> listed(cells.size(), false);
    for (uint32_t i = 0; i < n_keep; ++i) {
        const auto cell  = ranked[keep[i]];
        const auto entry = entry_of(cells, cell, positions[i]);
        if (entry.new_position != entry.position && cells.seq_count(cell) > 1) {
            pace_fail(PACE_SHARED_CELL, "the token at position %d belongs to another sequence too and would move to %d",
                      entry.position, entry.new_position);
        }
        listed[cell] = true;
        plan.entries.push_back(entry);
    }
    plan.n_kept = n_keep;
    for (uint32_t cell = 0; cell < cells.size(); ++cell) {
        if (listed[cell] || cells.is_empty(cell)) {
            continue;
        }
        auto entry = entry_of(cells, cell, cells.pos_get(cell));
        entry.sequences.reset(seq);
        if (entry.sequences.any()) {
            plan.entries.push_back(entry);
        }
    }
}

pace_plan pace_plan_renumber(const pace_cache & cache,
                             llama_seq_id       seq,
                             const uint32_t *   keep,
                             uint32_t           n_keep,
                             const llama_pos *  positions) {
    pace_plan plan = {};
    list_entries(cache, seq, keep, n_keep, positions, plan);

    // A key that neither moves nor turns is left alone if it is what a rotation of its reference gives:
    // when first captured, where references are exact; afterwards, unless upstream shifted it.
    const bool exact      = cache.reference_is_exact();
    // Where V is stored by columns, they are written as one run from the first that moves.
    const bool in_one_run = pace_access::v_transposed(*cache.kv);
    for (uint32_t i = 0; i < plan.entries.size(); ++i) {
        const auto & entry     = plan.entries[i];
        const auto & reference = cache.cell_references[entry.cell];
        const bool   captured  = cache.is_captured(entry.cell);
        const bool   moves     = entry.cell != i;
        const bool   turns     = entry.new_position != entry.key_position;
        const bool   derived   = captured ? entry.key_position == reference.key_position : exact;
        if (!captured) {
            plan.captures.add(entry.cell, i);
        } else if (moves) {
            plan.references.add(entry.cell, i);
        }
        plan.n_moved += moves ? 1 : 0;
        if (moves || (in_one_run && plan.values.size() > 0)) {
            plan.values.add(entry.cell, i);
        }
        if (moves || turns || !derived) {
            const auto from = captured ? reference.position : entry.key_position;
            plan.keys.cell.push_back((int32_t) i);
            plan.keys.delta.push_back(entry.new_position - from);
        }
    }
    return plan;
}
