# llama.cpp as shared libraries, with native/src compiled into libllama.
# Normal variables, which upstream's option() respects; one in the cache is the user's and wins.

# Sets the variable unless the user has.
macro(pace_default name value)
    if(NOT DEFINED CACHE{${name}})
        set(${name} ${value})
    endif()
endmacro()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
endif()
set(BUILD_SHARED_LIBS ON)
foreach(part COMMON TOOLS TESTS EXAMPLES SERVER APP UI MTMD)
    pace_default(LLAMA_BUILD_${part} OFF)
endforeach()
pace_default(LLAMA_OPENSSL OFF)
pace_default(LLAMA_BUILD_COMMIT "${PACE_PATCH_KEY}")
pace_default(LLAMA_BUILD_NUMBER 0)

# With AVX-512 the plain kernels read a prompt 1.4 times as fast as those for repacked weights, which need a second
# copy of them besides and make a token only 5 % faster. Without AVX-512 it is the other way round.
if("avx512" IN_LIST PACE_ISA_USED)
    pace_default(GGML_CPU_REPACK OFF)
endif()

# Kernels for the cards of this machine only: for all that upstream supports they take many times as long. It
# would do so itself under GGML_NATIVE, which is off for the processor's sake.
if("$CACHE{GGML_CUDA}" AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS}
   AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
    execute_process(COMMAND nvidia-smi --list-gpus RESULT_VARIABLE pace_status OUTPUT_VARIABLE pace_cards ERROR_QUIET)
    if(pace_status EQUAL 0 AND pace_cards MATCHES "GPU 0")
        set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
endif()

# Upstream asks git for its commit; without this it would find a repository that the build happens to lie in.
set(ENV{GIT_CEILING_DIRECTORIES} "${CMAKE_CURRENT_BINARY_DIR}")
add_subdirectory("${PACE_LLAMA_DIR}" "${CMAKE_CURRENT_BINARY_DIR}/llama.cpp" EXCLUDE_FROM_ALL)

file(GLOB pace_sources CONFIGURE_DEPENDS "${PACE_NATIVE_DIR}/src/*.cpp")
target_sources(llama PRIVATE ${pace_sources})
target_include_directories(llama PRIVATE "${PACE_NATIVE_DIR}/include")
# libllama compiles its models in batches; ours must not be pasted into one
set_source_files_properties(${pace_sources} TARGET_DIRECTORY llama PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(NOT MSVC)
    set(pace_warnings -Wall -Wextra)
    if(PACE_WERROR)
        list(APPEND pace_warnings -Werror)
    endif()
    set_source_files_properties(${pace_sources} TARGET_DIRECTORY llama PROPERTIES COMPILE_OPTIONS "${pace_warnings}")
endif()

set(PACE_LIBRARIES llama ggml ggml-base ${GGML_AVAILABLE_BACKENDS})
foreach(library IN LISTS PACE_LIBRARIES)
    # a version in the file name means three copies in a wheel, which cannot hold links
    set_property(TARGET ${library} PROPERTY VERSION)
    set_property(TARGET ${library} PROPERTY SOVERSION)
    set_property(TARGET ${library} PROPERTY PUBLIC_HEADER)
    set_target_properties(${library} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON)
    if(APPLE)
        set_target_properties(${library} PROPERTIES INSTALL_RPATH "@loader_path")
    else()
        set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
endforeach()
add_custom_target(pace_native ALL)
add_dependencies(pace_native ${PACE_LIBRARIES})
