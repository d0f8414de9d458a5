# libtruemax_cuda.so: the engine for NVIDIA GPUs, loaded at run time (src/device/open.hpp). Only if nvcc is there, and
# only if asked for: cmake --build --preset release --target truemax_cuda. CMake's own support of CUDA would compile
# trial programs whenever the tree is configured, which everybody else would wait for.
find_program(TRUEMAX_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(TRUEMAX_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPUs that libtruemax_cuda.so has code for; newer ones use the last one's PTX")
if(NOT TRUEMAX_NVCC)
  return()
endif()
get_filename_component(nvcc_folder ${TRUEMAX_NVCC} REALPATH)
get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
find_library(TRUEMAX_CUDART libcudart_static.a HINTS ${nvcc_folder}/../lib64 ${nvcc_folder}/../targets/x86_64-linux/lib)
if(NOT TRUEMAX_CUDART)
  message(STATUS "Skipped: truemax_cuda, which needs libcudart_static.a beside ${TRUEMAX_NVCC}")
  return()
endif()

set(nvcc_common -std=c++20 -O3 --expt-relaxed-constexpr --threads 2 -I${PROJECT_SOURCE_DIR}/src
    -I${RANDOM123_INCLUDE} -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off
    # What the headers of fmt 9 are for nvcc does not compile as C++20.
    -DFMT_USE_CONSTEXPR=1)
set(nvcc_flags ${nvcc_common})
foreach(architecture ${TRUEMAX_CUDA_ARCHITECTURES})
  list(APPEND nvcc_flags -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET TRUEMAX_CUDA_ARCHITECTURES -1 newest)
list(APPEND nvcc_flags -gencode arch=compute_${newest},code=compute_${newest})

file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
set(cuda_objects "")
foreach(source ${kernels})
  get_filename_component(name ${source} NAME_WE)
  set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
  set(flags ${nvcc_flags})
  if(name MATCHES "^layer_(scores|products)$")  # only run there; elsewhere other kernels do their work
    set(flags ${nvcc_common} -gencode arch=compute_90a,code=sm_90a)
  endif()
  add_custom_command(OUTPUT ${object}
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
                     COMMAND ${TRUEMAX_NVCC} ${flags} -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
                     DEPENDS ${source} DEPFILE ${object}.d COMMENT "Compiling kernels of ${name}.cu" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()

# fmt and Highway are inside, as in libtruemax.so.
add_library(truemax_cuda SHARED EXCLUDE_FROM_ALL ${cuda_objects} cmake/library/fmt.cpp cmake/library/highway.cpp)
set_source_files_properties(${cuda_objects} PROPERTIES EXTERNAL_OBJECT ON)
target_compile_definitions(truemax_cuda PRIVATE FMT_SHARED)
target_link_libraries(truemax_cuda PRIVATE truemax_flags $<TARGET_FILE:truemax_draw> $<TARGET_FILE:truemax_solve>
                      $<TARGET_FILE:truemax_core> ${TRUEMAX_CUDART} ${CMAKE_DL_LIBS} rt Threads::Threads)
add_dependencies(truemax_cuda truemax_draw truemax_solve truemax_core)
target_link_options(truemax_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--no-undefined
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda_exports.map)
set_target_properties(truemax_cuda PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/cuda_exports.map)
