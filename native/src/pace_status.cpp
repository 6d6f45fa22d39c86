#include "pace_status.h"

#include <cstdarg>
#include <cstdio>

static thread_local char last_message[512] = "";

void pace_fail(pace_status status, const char * format, ...) {
    char    text[sizeof(last_message)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    throw pace_failure{ status, text };
}

int32_t pace_report(pace_status status, const std::string & message) noexcept {
    snprintf(last_message, sizeof(last_message), "%s", message.c_str());
    return status;
}

const char * pace_last_message(void) {
    return last_message;
}

const char * pace_status_name(int32_t status) {
    switch (status) {
        case PACE_OK:
            return "OK";
        case PACE_INVALID_ARGUMENT:
            return "INVALID_ARGUMENT";
        case PACE_UNSUPPORTED:
            return "UNSUPPORTED";
        case PACE_MISMATCH:
            return "MISMATCH";
        case PACE_STALE:
            return "STALE";
        case PACE_BUFFER_TOO_SMALL:
            return "BUFFER_TOO_SMALL";
        case PACE_SHARED_CELL:
            return "SHARED_CELL";
        case PACE_NO_MEMORY:
            return "NO_MEMORY";
        case PACE_CACHE_LOST:
            return "CACHE_LOST";
        case PACE_INTERNAL:
            return "INTERNAL";
        case PACE_NO_ROOM:
            return "NO_ROOM";
        case PACE_BAD_BLOCK:
            return "BAD_BLOCK";
        case PACE_DEVICE_FAILED:
            return "DEVICE_FAILED";
        default:
            return "UNKNOWN";
    }
}

int32_t pace_handshake(uint32_t version, const struct pace_sizes * caller) {
    return pace_guard([&] {
        if (!caller) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_handshake: sizes is NULL");
        }
        if (version != PACE_API_VERSION) {
            pace_fail(PACE_MISMATCH, "the library speaks version %d of its API, the caller version %u",
                      PACE_API_VERSION, version);
        }
        const struct {
            const char * name;
            size_t       here;
            uint32_t     there;
        } sizes[] = {
            { "pace_capabilities",      sizeof(struct pace_capabilities),      caller->pace_capabilities      },
            { "pace_options",           sizeof(struct pace_options),           caller->pace_options           },
            { "pace_resident",          sizeof(struct pace_resident),          caller->pace_resident          },
            { "pace_bytes",             sizeof(struct pace_bytes),             caller->pace_bytes             },
            { "pace_change",            sizeof(struct pace_change),            caller->pace_change            },
            { "pace_attention_options", sizeof(struct pace_attention_options), caller->pace_attention_options },
            { "pace_identity",          sizeof(struct pace_identity),          caller->pace_identity          },
            { "llama_model_params",     sizeof(struct llama_model_params),     caller->llama_model_params     },
            { "llama_context_params",   sizeof(struct llama_context_params),   caller->llama_context_params   },
            { "llama_batch",            sizeof(struct llama_batch),            caller->llama_batch            },
        };
        for (const auto & size : sizes) {
            if (size.here != size.there) {
                pace_fail(PACE_MISMATCH, "struct %s has %zu bytes in the library and %u in the caller", size.name,
                          size.here, size.there);
            }
        }
    });
}
