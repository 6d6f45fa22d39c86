# Decides for which x86 instruction sets ggml is compiled, by running a small program for each. What the
# processor advertises is not enough: some virtual machines advertise AMX and trap on it.
#
# Sets GGML_NATIVE and one GGML_* variable per set, as normal variables so that a value in the cache, which is
# the user's, wins. PACE_ISA_USED lists the sets in use; it is "native" where nothing was probed.

# name | sets it builds on | compiler flags | GGML options it stands for
set(PACE_INSTRUCTION_SETS
    "sse42||-msse4.2|SSE42"
    "avx|sse42|-mavx|AVX"
    "avx2|avx|-mavx2 -mfma -mf16c -mbmi2|AVX2 FMA F16C BMI2"
    "avx_vnni|avx2|-mavx2 -mavxvnni|AVX_VNNI"
    "avx512|avx2|-mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl|AVX512"
    "avx512_vbmi|avx512|-mavx512f -mavx512vbmi|AVX512_VBMI"
    "avx512_vnni|avx512|-mavx512f -mavx512vnni|AVX512_VNNI"
    "avx512_bf16|avx512|-mavx512f -mavx512bf16|AVX512_BF16"
    "amx_int8|avx512_vnni|-mamx-tile -mamx-int8|AMX_TILE AMX_INT8"
    "amx_bf16|amx_int8|-mamx-tile -mamx-bf16|AMX_BF16")

# Compiles and runs native/probe/<name>.c with the flags. The result is "ok" or a reason.
function(pace_probe name flags result)
    set(program "${CMAKE_CURRENT_BINARY_DIR}/probe/${name}")
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/probe")
    separate_arguments(flags UNIX_COMMAND "${flags}")
    execute_process(
        COMMAND "${CMAKE_C_COMPILER}" -O1 ${flags} "${PACE_NATIVE_DIR}/probe/${name}.c" -o "${program}"
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(NOT status EQUAL 0)
        set(${result} "the compiler lacks it" PARENT_SCOPE)
        return()
    endif()
    execute_process(COMMAND "${program}" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET TIMEOUT 10)
    if(status STREQUAL "0")
        set(${result} "ok" PARENT_SCOPE)
    elseif(status STREQUAL "1")
        set(${result} "refused" PARENT_SCOPE)
    else()
        set(${result} "${status}" PARENT_SCOPE)  # the name of the signal
    endif()
endfunction()

# Adds to the list the sets that its members build on.
function(pace_close_isa list)
    set(closed ${${list}})
    foreach(round RANGE 4)  # no chain is longer
        foreach(row IN LISTS PACE_INSTRUCTION_SETS)
            string(REGEX MATCH "^([^|]*)[|]([^|]*)" row "${row}")
            if(CMAKE_MATCH_1 IN_LIST closed AND CMAKE_MATCH_2)
                list(APPEND closed "${CMAKE_MATCH_2}")
            endif()
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES closed)
    set(${list} "${closed}" PARENT_SCOPE)
endfunction()

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" OR CMAKE_CROSSCOMPILING OR MSVC OR APPLE
   OR "$CACHE{GGML_NATIVE}" OR "$CACHE{GGML_CPU_ALL_VARIANTS}")
    set(PACE_ISA_USED "native")
    message(STATUS "PACE: instruction sets: chosen by ggml (GGML_NATIVE)")
    return()
endif()

set(GGML_NATIVE OFF)
set(PACE_ISA_USED "")
set(pace_off "")
if(PACE_ISA)
    string(REGEX REPLACE "[, ]+" ";" pace_wanted "${PACE_ISA}")
    list(REMOVE_ITEM pace_wanted "none")
    pace_close_isa(pace_wanted)
    set(pace_known "${PACE_INSTRUCTION_SETS}")
    list(TRANSFORM pace_known REPLACE "[|].*" "")
    foreach(name IN LISTS pace_wanted)
        if(NOT name IN_LIST pace_known)
            list(JOIN pace_known " " pace_known)
            message(FATAL_ERROR "PACE_ISA names '${name}', which is not one of: ${pace_known} none")
        endif()
    endforeach()
endif()

foreach(row IN LISTS PACE_INSTRUCTION_SETS)
    string(REGEX MATCH "^(.*)[|](.*)[|](.*)[|](.*)$" row "${row}")
    set(name "${CMAKE_MATCH_1}")
    set(base "${CMAKE_MATCH_2}")
    set(flags "${CMAKE_MATCH_3}")
    string(REPLACE " " ";" options "${CMAKE_MATCH_4}")
    list(GET options 0 option)
    if(DEFINED CACHE{GGML_${option}})
        set(verdict "off by GGML_${option}")
        if("$CACHE{GGML_${option}}")
            set(verdict "ok")
        endif()
    elseif(PACE_ISA)
        set(verdict "not in PACE_ISA")
        if(name IN_LIST pace_wanted)
            set(verdict "ok")
        endif()
    elseif(base AND NOT base IN_LIST PACE_ISA_USED)
        set(verdict "needs ${base}")
    else()
        pace_probe("${name}" "${flags}" verdict)
    endif()
    if(verdict STREQUAL "ok")
        list(APPEND PACE_ISA_USED "${name}")
    else()
        list(APPEND pace_off "${name}: ${verdict}")
    endif()
    foreach(option IN LISTS options)
        if(verdict STREQUAL "ok")
            set(GGML_${option} ON)
        else()
            set(GGML_${option} OFF)
        endif()
    endforeach()
endforeach()

list(JOIN PACE_ISA_USED " " pace_used)
list(JOIN pace_off ", " pace_off)
message(STATUS "PACE: instruction sets: ${pace_used} (off: ${pace_off})")
