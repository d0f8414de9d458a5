# One folder of src/ is one room is one static library, truemax_<room>. Its sources are all *.cpp of the
# folder; *_test.cpp are its tests and *_bench.cpp its benchmarks, which link nothing but the room itself.
add_library(truemax_flags INTERFACE)
target_compile_options(truemax_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wpedantic)
# A step is tested bit for bit against its oracle: the compiler may not fuse or reorder arithmetic on its own.
target_compile_options(truemax_flags INTERFACE -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(truemax_flags INTERFACE -Wno-restrict)  # false alarms of g++ 12 on std::string (GCC 105651)
endif()
if(TRUEMAX_STRICT)
  target_compile_options(truemax_flags INTERFACE -Werror)
endif()
if(TRUEMAX_ASSERTIONS)
  target_compile_definitions(truemax_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(TRUEMAX_SANITIZE)
  target_compile_options(truemax_flags INTERFACE -fsanitize=${TRUEMAX_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(truemax_flags INTERFACE -fsanitize=${TRUEMAX_SANITIZE})
endif()

function(truemax_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main)\\.cpp$")
  add_library(truemax_${name} STATIC ${sources})
  target_include_directories(truemax_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(truemax_${name} PUBLIC truemax_flags)
  foreach(room ${ROOM_LINKS})
    target_link_libraries(truemax_${name} PUBLIC truemax_${room})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TRUEMAX_ROOMS ${name})
endfunction()
