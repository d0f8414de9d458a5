# What is installed: one shared library of all rooms but the command line, the public headers, the program, and a
# package that find_package(truemax) finds.
include(CMakePackageConfigHelpers)

add_library(truemax SHARED)
foreach(room core data weights draw solve rule evaluate model train api)
  target_sources(truemax PRIVATE $<TARGET_OBJECTS:truemax_${room}>)
endforeach()
add_library(truemax::truemax ALIAS truemax)
target_link_libraries(truemax PRIVATE fmt::fmt Threads::Threads ZLIB::ZLIB zstd::libzstd_shared hwy)
if(TRUEMAX_SANITIZE)
  target_link_options(truemax PRIVATE -fsanitize=${TRUEMAX_SANITIZE})
endif()
target_include_directories(truemax INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(truemax INTERFACE cxx_std_20)
set_target_properties(truemax PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)

install(TARGETS truemax EXPORT truemax-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS truemax_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/truemax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT truemax-targets NAMESPACE truemax:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)
configure_package_config_file(cmake/truemax-config.cmake.in truemax-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)
write_basic_package_version_file(truemax-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/truemax-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/truemax-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)
