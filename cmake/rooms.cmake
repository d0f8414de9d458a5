# Each folder of src/ is a room: one static library, truemax_<room>, of all its *.cpp files. Its tests, *_test.cpp,
# link only that room.
add_library(truemax_flags INTERFACE)
target_compile_options(truemax_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wpedantic)
# Steps are compared bit for bit with their oracles, so the compiler must not fuse arithmetic.
target_compile_options(truemax_flags INTERFACE -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False alarms of g++ 12 on std::string (GCC 105651, 105329).
  target_compile_options(truemax_flags INTERFACE -Wno-restrict -Wno-stringop-overflow)
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

# Parsing the headers of the standard library, fmt and JSON takes longer than compiling most files, so rooms share
# precompiled copies: one with JSON, one without. The dev-clang preset goes without and finds missing includes.
function(truemax_precompiled name)
  file(CONFIGURE OUTPUT generated/${name}.cpp CONTENT "")  # written once: configuring again rebuilds nothing
  add_library(truemax_${name} OBJECT ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  target_precompile_headers(truemax_${name} PRIVATE ${ARGN})
  target_link_libraries(truemax_${name} PUBLIC truemax_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
  target_include_directories(truemax_${name} SYSTEM PRIVATE ${RANDOM123_INCLUDE})
endfunction()
truemax_precompiled(headers ${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp)
truemax_precompiled(json_headers ${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp <nlohmann/json.hpp>)

# Writes files that include four of the sources each, for TRUEMAX_TOGETHER. CMake's own UNITY_BUILD leaves sources with
# compiler options alone.
function(truemax_together result name)
  set(together "")
  set(text "")
  foreach(source ${ARGN})
    string(APPEND text "#include \"${source}\"\n")
    list(FIND ARGN ${source} at)
    math(EXPR place "${at} % 4")
    list(GET ARGN -1 last)
    if(place EQUAL 3 OR source STREQUAL last)
      set(file ${PROJECT_BINARY_DIR}/generated/${name}_${at}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
      list(APPEND together ${file})
      set(text "")
    endif()
  endforeach()
  set(${result} ${together} PARENT_SCOPE)
endfunction()

# truemax_room(NAME [LINKS ROOM...] [FAST REGEX] [JSON]): FAST names the files with loops over features, classes or
# rows; a Release build compiles the others with -Og, in half the time. JSON: most files of the room use it.
function(truemax_room name)
  cmake_parse_arguments(ROOM "JSON" "FAST" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  add_library(truemax_${name} STATIC ${sources})
  if(ROOM_JSON)
    target_precompile_headers(truemax_${name} REUSE_FROM truemax_json_headers)
  else()
    target_precompile_headers(truemax_${name} REUSE_FROM truemax_headers)
  endif()
  if(ROOM_FAST)
    list(FILTER sources EXCLUDE REGEX "/(${ROOM_FAST})\\.cpp$")
  endif()
  # The fuzz targets run what steps do only to make seeds: instrumented, these rooms would take most of the build. What
  # of them reads files is compiled again in fuzz/.
  set(bystander FALSE)
  if(TRUEMAX_SANITIZE MATCHES fuzzer AND name MATCHES "^(draw|solve|rule|evaluate|train)$")
    set(bystander TRUE)
    target_compile_options(truemax_${name} PRIVATE -O0 -g0 -fno-sanitize=all)
    set_target_properties(truemax_${name} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
  if(TRUEMAX_TOGETHER AND NOT bystander)
    set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
    truemax_together(sources ${name} ${sources})
    target_sources(truemax_${name} PRIVATE ${sources})
  endif()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Og>")
  target_include_directories(truemax_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(truemax_${name} PUBLIC truemax_flags)
  truemax_tidy(truemax_${name})
  foreach(room ${ROOM_LINKS})
    target_link_libraries(truemax_${name} PUBLIC truemax_${room})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TRUEMAX_ROOMS ${name})
endfunction()
