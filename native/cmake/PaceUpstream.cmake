# Fetches and patches llama.cpp (native/prepare.py). Sets PACE_LLAMA_DIR, PACE_UPSTREAM_VERSION and PACE_PATCH_KEY.
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)

set(PACE_NATIVE_DIR "${CMAKE_CURRENT_SOURCE_DIR}/native")
file(GLOB pace_patches CONFIGURE_DEPENDS "${PACE_NATIVE_DIR}/patches/*.patch")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    "${PACE_NATIVE_DIR}/upstream.txt" "${PACE_NATIVE_DIR}/prepare.py" "${PACE_NATIVE_DIR}/patching.py"
    "${PACE_NATIVE_DIR}/upstream.py" ${pace_patches})

# Errors go straight to the terminal; the last of them says all there is to say.
execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${PACE_NATIVE_DIR}/prepare.py" --mirror "${CMAKE_CURRENT_BINARY_DIR}/upstream"
    OUTPUT_VARIABLE pace_upstream OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE pace_status)
if(NOT pace_status EQUAL 0)
    message(FATAL_ERROR "llama.cpp could not be prepared; see the line that starts with 'prepare: error' above")
endif()
set(PACE_LLAMA_DIR "${pace_upstream}/vendor/llama.cpp")

execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${PACE_NATIVE_DIR}/prepare.py" --key
    OUTPUT_VARIABLE PACE_PATCH_KEY OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS "${PACE_NATIVE_DIR}/upstream.txt" pace_pin REGEX "^llama-cpp-python==")
string(REGEX MATCH "==([^ ]+)" pace_pin "${pace_pin}")
set(PACE_UPSTREAM_VERSION "${CMAKE_MATCH_1}")
