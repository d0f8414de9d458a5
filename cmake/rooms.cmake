# Each folder of src/ is a room: one static library, truemax_<room>, of all its *.cpp files. Its tests, *_test.cpp,
# link only that room.
add_library(truemax_flags INTERFACE)
target_compile_options(truemax_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wpedantic)
# Steps are compared bit for bit with their oracles, so the compiler must not fuse arithmetic.
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

function(truemax_tidy target)
  if(TRUEMAX_TIDY)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY clang-tidy)
  endif()
endfunction()

# Parsing the headers of the standard library, fmt and JSON takes longer than compiling most files, so all rooms
# share one precompiled copy. The dev-clang preset goes without it and finds includes that are missing.
add_library(truemax_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
target_precompile_headers(truemax_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp)
target_link_libraries(truemax_headers PUBLIC truemax_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)

# truemax_room(NAME [LINKS ROOM...] [FAST all | FAST REGEX]): FAST says which files have loops over features, classes
# or rows. They are compiled with the -O3 of the Release build type; the others with -O1, in half the time.
function(truemax_room name)
  cmake_parse_arguments(ROOM "" "FAST" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|/main)\\.cpp$")
  add_library(truemax_${name} STATIC ${sources})
  target_precompile_headers(truemax_${name} REUSE_FROM truemax_headers)
  if(NOT ROOM_FAST STREQUAL "all")
    if(ROOM_FAST)
      list(FILTER sources EXCLUDE REGEX "/(${ROOM_FAST})\\.cpp$")
    endif()
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1>")
  endif()
  target_include_directories(truemax_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(truemax_${name} PUBLIC truemax_flags)
  truemax_tidy(truemax_${name})
  foreach(room ${ROOM_LINKS})
    target_link_libraries(truemax_${name} PUBLIC truemax_${room})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TRUEMAX_ROOMS ${name})
endfunction()
