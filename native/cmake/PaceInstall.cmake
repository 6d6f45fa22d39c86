# Installs the libraries, the upstream licences and build.json, which says how they were built.
set(PACE_LIB_DIR "pace_local/lib")
install(TARGETS ${PACE_LIBRARIES}
    LIBRARY DESTINATION "${PACE_LIB_DIR}" RUNTIME DESTINATION "${PACE_LIB_DIR}" ARCHIVE DESTINATION "${PACE_LIB_DIR}")
install(FILES "${PACE_LLAMA_DIR}/LICENSE" DESTINATION "${PACE_LIB_DIR}" RENAME LICENSE.llama.cpp)
install(FILES "${pace_upstream}/LICENSE.md" DESTINATION "${PACE_LIB_DIR}" RENAME LICENSE.llama-cpp-python)

# A JSON string.
function(pace_json_string text result)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    set(${result} "\"${text}\"" PARENT_SCOPE)
endfunction()

# A JSON array of strings.
function(pace_json_array items result)
    set(quoted "")
    foreach(item IN LISTS items)
        pace_json_string("${item}" item)
        list(APPEND quoted "${item}")
    endforeach()
    list(JOIN quoted ", " quoted)
    set(${result} "[${quoted}]" PARENT_SCOPE)
endfunction()

set(pace_options "")
foreach(name NATIVE CPU_REPACK LLAMAFILE OPENMP CUDA HIP METAL VULKAN RPC BLAS SYCL)
    set(value false)
    if(GGML_${name})
        set(value true)
    endif()
    list(APPEND pace_options "\"GGML_${name}\": ${value}")
endforeach()
list(JOIN pace_options ", " pace_options)

pace_json_string("${PACE_UPSTREAM_VERSION}" pace_upstream_json)
pace_json_string("${PACE_PATCH_KEY}" pace_key_json)
pace_json_string("${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" pace_compiler_json)
pace_json_string("${CMAKE_BUILD_TYPE}" pace_type_json)
pace_json_string("$ENV{CMAKE_ARGS}" pace_args_json)
pace_json_array("${PACE_ISA_USED}" pace_isa_json)
pace_json_array("${GGML_AVAILABLE_BACKENDS}" pace_backends_json)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/build.json" @ONLY CONTENT [[
{
 "llama_cpp_python": @pace_upstream_json@,
 "patch": @pace_key_json@,
 "isa": @pace_isa_json@,
 "backends": @pace_backends_json@,
 "options": {@pace_options@},
 "compiler": @pace_compiler_json@,
 "build_type": @pace_type_json@,
 "cmake_args": @pace_args_json@
}
]])
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/build.json" DESTINATION "${PACE_LIB_DIR}")
