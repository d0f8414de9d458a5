# The *_test.cpp files of a room make one test program that links only that room, so that a test cannot use a room
# that its own may not. Only tests use GoogleTest and Boost (for oracles).
find_package(GTest REQUIRED)
include(GoogleTest)

# Only for these files: a path in the compiler flags keeps a compiler cache from serving two checkouts.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/data/real_data_test.cpp
                            ${PROJECT_SOURCE_DIR}/src/train/evaluations_test.cpp
                            ${PROJECT_SOURCE_DIR}/src/train/plan_table_test.cpp
                            PROPERTIES COMPILE_DEFINITIONS TRUEMAX_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

truemax_precompiled(test_headers ${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp <gtest/gtest.h> <gmock/gmock.h>)
target_link_libraries(truemax_test_headers PRIVATE GTest::gmock)
# clang-tidy looks at single files, but not at tests: those need not wait for headers without precompiled copies.
set(tests_together ${TRUEMAX_TOGETHER})
if(TRUEMAX_TIDY)
  set(tests_together ON)
endif()
get_property(rooms GLOBAL PROPERTY TRUEMAX_ROOMS)
foreach(room ${rooms})
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*_test.cpp)
  if(tests)
    add_executable(${room}_test ${tests})
    set(tested truemax_${room})
    if(TARGET truemax_${room}_headers)
      set(tested truemax_${room}_headers)
    endif()
    target_link_libraries(${room}_test PRIVATE ${tested} GTest::gtest_main GTest::gmock)
    target_precompile_headers(${room}_test REUSE_FROM truemax_test_headers)
    # -fPIC as in the precompiled headers; a test program would get -fPIE.
    target_compile_options(${room}_test PRIVATE -fPIC $<$<CONFIG:Release>:-Og>)
    set_target_properties(${room}_test PROPERTIES UNITY_BUILD ${tests_together} UNITY_BUILD_BATCH_SIZE 4)
    gtest_discover_tests(${room}_test DISCOVERY_TIMEOUT 120)
  endif()
endforeach()

# An engine that runs its kernels on the CPU, in place of libtruemax_cuda.so.
file(GLOB emulated_parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*_emulated.cpp)
add_library(truemax_emulated MODULE ${PROJECT_SOURCE_DIR}/tests/device/emulated.cpp ${emulated_parts})
target_link_libraries(truemax_emulated PRIVATE truemax_cuda_headers)
target_compile_options(truemax_emulated PRIVATE $<$<CONFIG:Release>:-O2>)
target_link_options(truemax_emulated PRIVATE -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda_exports.map)
add_dependencies(device_test truemax_emulated)
add_dependencies(train_test truemax_emulated)

# The C interface from C, linked with the shared library.
enable_language(C)
add_executable(c_api ${PROJECT_SOURCE_DIR}/tests/c_api.c)
set_target_properties(c_api PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_compile_options(c_api PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_link_libraries(c_api PRIVATE truemax_library m)
if(TRUEMAX_SANITIZE)
  # The sanitizer's runtime must be loaded before the library's.
  target_compile_options(c_api PRIVATE -fsanitize=${TRUEMAX_SANITIZE})
  target_link_options(c_api PRIVATE -fsanitize=${TRUEMAX_SANITIZE})
endif()
add_test(NAME api.from_c COMMAND c_api ${CMAKE_BINARY_DIR}/c_api.safetensors)

# Random configurations, checked against an oracle: tests/torture.py runs it.
file(GLOB soak_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/soak/*.cpp)
add_executable(truemax_soak ${soak_sources})
target_link_libraries(truemax_soak PRIVATE truemax_train)
add_test(NAME soak COMMAND truemax_soak --count 300 --seconds 120 --seed 1)
set_tests_properties(soak PROPERTIES TIMEOUT 600 COST 50)

# Lets system calls of the program fail: tests/torture_faults.py loads it.
add_library(truemax_faults SHARED ${PROJECT_SOURCE_DIR}/tests/faults/preload.c)
set_target_properties(truemax_faults PROPERTIES C_STANDARD 11 C_VISIBILITY_PRESET default)
target_compile_options(truemax_faults PRIVATE -Wall -Wextra -Werror)
target_link_libraries(truemax_faults PRIVATE ${CMAKE_DL_LIBS})

# Whole-program tests: one line each. They need Debian's python3-numpy.
# The slowest start first, so that none is left running alone at the end.
set(slow_tests torture doc_blocks examples ridge_rows paper methods numpy_agrees memory)
function(truemax_python_test name)
  set(cost 10)
  if(name IN_LIST slow_tests)
    set(cost 50)
  endif()
  add_test(NAME program.${name} COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/test_${name}.py)
  set(seconds 900)
  if(TRUEMAX_SANITIZE MATCHES thread)  # 5 to 20 times slower
    set(seconds 2700)
  endif()
  # Some tests measure memory, so the sanitizer must not hold on to freed memory.
  set_tests_properties(program.${name} PROPERTIES
                       ENVIRONMENT "TRUEMAX=$<TARGET_FILE:truemax_program>;TRUEMAX_PACKAGE=${CMAKE_BINARY_DIR}/python;ASAN_OPTIONS=quarantine_size_mb=1;TRUEMAX_SANITIZE=${TRUEMAX_SANITIZE}"
                       COST ${cost} TIMEOUT ${seconds})
endfunction()
truemax_python_test(architecture)
truemax_python_test(auto)
truemax_python_test(bench)
truemax_python_test(bench_words)
truemax_python_test(threads)
truemax_python_test(budget)
truemax_python_test(dev)
truemax_python_test(device)
truemax_python_test(docs)
truemax_python_test(site)
truemax_python_test(experiments)
truemax_python_test(hashing)
truemax_python_test(memory)
if(TARGET truemax_mpi)
  truemax_python_test(ranks_files)
  truemax_python_test(mpi)
  truemax_python_test(mpi_learnt)
  # Ranks that share cores with other tests wait for them. Open MPI does not free all of its memory.
  set_tests_properties(program.ranks_files program.mpi program.mpi_learnt PROPERTIES RUN_SERIAL TRUE
                       ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=set:quarantine_size_mb=1:detect_leaks=0")
endif()
truemax_python_test(ngrams)
truemax_python_test(numpy_agrees)
truemax_python_test(outputs)
truemax_python_test(sampled)
truemax_python_test(stream)
truemax_python_test(bad_input)
truemax_python_test(bad_model)
truemax_python_test(bad_options)
truemax_python_test(flagship)
truemax_python_test(fuzz)
truemax_python_test(help)
truemax_python_test(learnt)
truemax_python_test(text)
truemax_python_test(package)
truemax_python_test(formats)
truemax_python_test(methods)
truemax_python_test(compare)
truemax_python_test(compatibility)
truemax_python_test(program)
truemax_python_test(paper)
truemax_python_test(paper_parts)
truemax_python_test(plan)
truemax_python_test(reading)
truemax_python_test(report)
# Some of the kills of tests/kill_ranks.py.
add_test(NAME program.kill_ranks COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/kill_ranks.py --kills 3)
set_tests_properties(program.kill_ranks PROPERTIES
                     ENVIRONMENT "TRUEMAX=$<TARGET_FILE:truemax_program>;TRUEMAX_SANITIZE=${TRUEMAX_SANITIZE}"
                     SKIP_RETURN_CODE 77 COST 50 TIMEOUT 900)
truemax_python_test(machines)
set_tests_properties(program.kill_ranks program.machines PROPERTIES
                     ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=set:quarantine_size_mb=1:detect_leaks=0")
truemax_python_test(resume)
truemax_python_test(index)
truemax_python_test(init)
truemax_python_test(ridge_rows)
truemax_python_test(triples)
truemax_python_test(vectors)
truemax_python_test(weights)
# Sanitizers run the same commands elsewhere, and replace malloc as the faults do; here they would take minutes, and Python cannot load their library.
if(NOT TRUEMAX_SANITIZE)
  add_custom_target(truemax_python_for_tests ALL DEPENDS truemax_python)
  truemax_python_test(doc_blocks)
  truemax_python_test(examples)
  truemax_python_test(python_plot)
  truemax_python_test(python)
  truemax_python_test(python_bits)
  truemax_python_test(python_plan)
  truemax_python_test(python_wheel)
  truemax_python_test(python_links)
  truemax_python_test(python_text)
  truemax_python_test(python_input)
  truemax_python_test(python_misuse)
  truemax_python_test(torture)
  truemax_python_test(torch)
  truemax_python_test(torch_cuda)
  set_property(TEST program.torch_cuda APPEND PROPERTY ENVIRONMENT "TRUEMAX_EMULATED=$<TARGET_FILE:truemax_emulated>")
  set_tests_properties(program.torch program.torch_cuda PROPERTIES SKIP_RETURN_CODE 77)
endif()
truemax_python_test(paper_figures)
set_tests_properties(program.paper_figures PROPERTIES SKIP_RETURN_CODE 77)

# An installed copy is found by find_package and trains through the public headers.
set(install_flags "")
if(TRUEMAX_SANITIZE)
  set(install_flags -fsanitize=${TRUEMAX_SANITIZE})
endif()
add_test(NAME install.find_package
         COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/install
                 -DSCRATCH=${CMAKE_BINARY_DIR}/install-test -DCOMPILER=${CMAKE_CXX_COMPILER} -DFLAGS=${install_flags}
                 -P ${PROJECT_SOURCE_DIR}/tests/install/run.cmake)
set_tests_properties(install.find_package PROPERTIES TIMEOUT 600)
