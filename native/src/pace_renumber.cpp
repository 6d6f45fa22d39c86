// pace_retain() and pace_renumber(): validate, move rows, then rewrite the cell table.
#include "pace_plan.h"
#include "pace_status.h"

#include <algorithm>
#include <limits>
#include <numeric>

static void rewrite_cells(pace_cache & cache, const pace_plan & plan) {
    auto & cells = pace_access::cells(*cache.kv);
    auto & head  = pace_access::head(*cache.kv);

    std::vector<pace_cell_reference> references(cells.size());
    for (uint32_t i = 0; i < plan.entries.size(); ++i) {
        const auto cell = plan.entries[i].cell;
        references[i].position =
            cache.is_captured(cell) ? cache.cell_references[cell].position : plan.entries[i].key_position;
        references[i].key_position = plan.entries[i].new_position;
    }
    cells.reset();
    for (uint32_t i = 0; i < plan.entries.size(); ++i) {
        const auto & entry = plan.entries[i];
        cells.pos_set(i, entry.new_position);
        cells.ext_set(i, entry.ext);
        for (size_t s = 0; s < entry.sequences.size(); ++s) {
            if (entry.sequences.test(s)) {
                cells.seq_add(i, (llama_seq_id) s);
            }
        }
        references[i].stamp = cells.stamp_get(i);
    }
    if (cache.attention) {
        cache.attention->follow(cells, plan.sources());
    }
    if (cache.counts) {
        cache.counts->follow(cells, plan.sources());
    }
    cache.cell_references = std::move(references);
    head                  = (uint32_t) plan.entries.size();
}

void pace_empty(pace_cache & cache) {
    cache.kv->clear(false);
    std::fill(cache.cell_references.begin(), cache.cell_references.end(), pace_cell_reference{});
}

static void set_change(pace_change * change, const pace_plan & plan, uint32_t n_before, int64_t start) {
    if (change) {
        *change            = {};
        change->n_before   = n_before;
        change->n_after    = (uint32_t) plan.n_kept;
        change->n_rotated  = (uint32_t) plan.keys.size();
        change->n_moved    = (uint32_t) plan.n_moved;
        change->n_captured = (uint32_t) plan.captures.size();
        change->micros     = ggml_time_us() - start;
    }
}

int32_t pace_retain(struct pace_cache *  cache,
                    llama_seq_id         seq,
                    const uint32_t *     keep,
                    uint32_t             n_keep,
                    uint32_t             n_residents,
                    struct pace_change * change) {
    return pace_guard([&] {
        const auto start = ggml_time_us();
        if (!cache) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_retain: cache is NULL");
        }
        pace_check_ranks(*cache, seq, keep, n_keep, n_residents);
        if (cache->fails_at(PACE_FAIL_PLAN)) {
            pace_fail(PACE_NO_MEMORY, "no memory to plan");
        }
        auto & cells = pace_access::cells(*cache->kv);
        auto & head  = pace_access::head(*cache->kv);

        std::vector<uint32_t> evicted;
        uint32_t              rank = 0;
        uint32_t              next = 0;
        for (const auto & resident : cells.seq_pos_get(seq)) {
            if (next < n_keep && keep[next] == rank) {
                ++next;
            } else {
                evicted.push_back(resident.second);
            }
            ++rank;
        }
        for (const auto cell : evicted) {
            if (cells.seq_rm(cell, seq)) {
                head = std::min(head, cell);
            }
        }
        pace_plan plan = {};
        plan.n_kept    = n_keep;
        set_change(change, plan, n_residents, start);
    });
}

int32_t pace_settle(struct pace_cache * cache) {
    return pace_guard([&] {
        if (!cache) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_settle: cache is NULL");
        }
        if (!cache->cells().get_has_shift()) {
            return;
        }
        pace_empties_if_lost(*cache, [&] {
            const pace_moving moving(*cache);
            cache->ctx->memory_update(false);
            if (cache->fails_at(PACE_FAIL_COMPUTE) || cache->cells().get_has_shift()) {
                // upstream does not say whether some layers were shifted already
                pace_fail(PACE_CACHE_LOST,
                          "the device failed while llama.cpp shifted its keys; decode the tokens again");
            }
        });
    });
}

static void place(pace_cache &      cache,
                  llama_seq_id      seq,
                  const uint32_t *  keep,
                  uint32_t          n_keep,
                  uint32_t          n_residents,
                  const llama_pos * positions,
                  pace_change *     change) {
    const auto start = ggml_time_us();
    if (cache.fails_at(PACE_FAIL_PLAN)) {
        pace_fail(PACE_NO_MEMORY, "no memory to plan");
    }
    llama_synchronize(cache.ctx);
    // A shift that upstream still owes its keys is part of the same rotation: see pace_entry::key_position.
    const auto plan = pace_plan_renumber(cache, seq, keep, n_keep, positions);
    if (cache.attention) {
        cache.attention->collect();
    }
    if (cache.counts) {
        cache.counts->forget_strangers();
    }
    pace_empties_if_lost(cache, [&] { pace_move_rows(cache, plan); });
    rewrite_cells(cache, plan);
    set_change(change, plan, n_residents, start);
}

int32_t pace_renumber(struct pace_cache *  cache,
                      llama_seq_id         seq,
                      const uint32_t *     keep,
                      uint32_t             n_keep,
                      uint32_t             n_residents,
                      int32_t              first_position,
                      struct pace_change * change) {
    return pace_guard([&] {
        if (!cache) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_renumber: cache is NULL");
        }
        pace_check_ranks(*cache, seq, keep, n_keep, n_residents);
        if (first_position < 0 || first_position > std::numeric_limits<llama_pos>::max() - (llama_pos) n_keep) {
            pace_fail(PACE_INVALID_ARGUMENT, "first position %d with %u residents is out of range", first_position,
                      n_keep);
        }
        std::vector<llama_pos> positions(n_keep);
        std::iota(positions.begin(), positions.end(), first_position);
        place(*cache, seq, keep, n_keep, n_residents, positions.data(), change);
    });
}

int32_t pace_place(struct pace_cache *  cache,
                   llama_seq_id         seq,
                   const uint32_t *     keep,
                   uint32_t             n_keep,
                   uint32_t             n_residents,
                   const int32_t *      positions,
                   struct pace_change * change) {
    return pace_guard([&] {
        if (!cache) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_place: cache is NULL");
        }
        pace_check_ranks(*cache, seq, keep, n_keep, n_residents);
        pace_check_positions(positions, n_keep);
        place(*cache, seq, keep, n_keep, n_residents, positions, change);
    });
}
