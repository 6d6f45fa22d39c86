// How failures travel inside this library: thrown as pace_failure, turned into a status at the border.
#pragma once

#include "pace.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

struct pace_failure {
    pace_status status;
    std::string message;
};

[[noreturn]] __attribute__((format(printf, 2, 3))) void pace_fail(pace_status status, const char * format, ...);

// Stores the message for pace_last_message() and returns the status.
int32_t pace_report(pace_status status, const std::string & message) noexcept;

// Runs body on the devices; if one fails, what was in the cache is as before.
template <typename F> void pace_keeps_residents(F && body) {
    try {
        std::forward<F>(body)();
    } catch (const pace_failure & failure) {
        if (failure.status == PACE_CACHE_LOST) {
            pace_fail(PACE_DEVICE_FAILED, "%s", failure.message.c_str());
        }
        throw;
    }
}

// Runs body; nothing is thrown past it.
template <typename F> int32_t pace_guard(F && body) noexcept {
    try {
        std::forward<F>(body)();
        return PACE_OK;
    } catch (const pace_failure & failure) {
        return pace_report(failure.status, failure.message);
    } catch (const std::bad_alloc &) {
        return pace_report(PACE_NO_MEMORY, "host memory is exhausted");
    } catch (const std::exception & error) {
        return pace_report(PACE_INTERNAL, error.what());
    } catch (...) {
        return pace_report(PACE_INTERNAL, "unknown exception");
    }
}
