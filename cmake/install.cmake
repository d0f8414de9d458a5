# Installs a shared library of all rooms except report and the command line, the public headers, the program with its
# man page and bash completion, and a CMake package for find_package(truemax).
include(CMakePackageConfigHelpers)

# fmt, Highway, zstd and zlib are inside, so that the library runs where they are not installed. Debian has no static
# fmt and Highway: cmake/library has what of them is needed.
add_library(truemax_library SHARED cmake/library/fmt.cpp cmake/library/highway.cpp)
target_include_directories(truemax_library PRIVATE src)
target_compile_definitions(truemax_library PRIVATE FMT_SHARED)
foreach(room core device ranks data weights draw solve rule evaluate model index train layer api)
  target_sources(truemax_library PRIVATE $<TARGET_OBJECTS:truemax_${room}>)
endforeach()
add_library(truemax::truemax ALIAS truemax_library)
find_library(ZLIB_INSIDE libz.a REQUIRED)
target_link_libraries(truemax_library PRIVATE truemax_flags Threads::Threads ${ZLIB_INSIDE} zstd::libzstd_static)
target_link_options(truemax_library PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(truemax_library PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
truemax_tidy(truemax_library)
if(TRUEMAX_SANITIZE)
  target_link_options(truemax_library PRIVATE -fsanitize=${TRUEMAX_SANITIZE})
endif()
target_include_directories(truemax_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(truemax_library INTERFACE cxx_std_20)
set_target_properties(truemax_library PROPERTIES OUTPUT_NAME truemax EXPORT_NAME truemax VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)

install(TARGETS truemax_library EXPORT truemax-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS truemax_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET truemax_cuda)
  install(FILES $<TARGET_FILE:truemax_cuda> DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)  # if it was built
endif()
install(DIRECTORY include/truemax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT truemax-targets NAMESPACE truemax:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)
configure_package_config_file(cmake/truemax-config.cmake.in truemax-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)
write_basic_package_version_file(truemax-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/truemax-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/truemax-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/truemax)

# The Python package with its library: ./dev python, and the tests.
file(GLOB python_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/truemax/*.py
     ${PROJECT_SOURCE_DIR}/python/truemax/*.pyi ${PROJECT_SOURCE_DIR}/python/truemax/py.typed)
set(python_package ${CMAKE_BINARY_DIR}/python/truemax)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/python.stamp
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${python_package}
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${python_package}
                   COMMAND ${CMAKE_COMMAND} -E copy ${python_files} ${python_package}
                   COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:truemax_library> ${python_package}/libtruemax.so
                   COMMAND sh -c "if [ -e libtruemax_cuda.so ]; then cp libtruemax_cuda.so '${python_package}'; fi"
                   COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/python.stamp
                   WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
                   DEPENDS ${python_files} truemax_library VERBATIM)
add_custom_target(truemax_python DEPENDS ${CMAKE_BINARY_DIR}/python.stamp)

# The program generates its man page and completion.
add_custom_command(OUTPUT truemax.1.gz truemax.bash
                   COMMAND truemax_program help --man > truemax.1
                   COMMAND gzip -9nf truemax.1
                   COMMAND truemax_program help --completion bash > truemax.bash
                   DEPENDS truemax_program)
add_custom_target(truemax_pages ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/truemax.1.gz
                  ${CMAKE_CURRENT_BINARY_DIR}/truemax.bash)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/truemax.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/truemax.bash RENAME truemax
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# ./dev package: one Debian package of everything installed.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME truemax)
set(CPACK_PACKAGE_CONTACT "truemax developers <truemax@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "softmax models with very many classes")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "truemax trains softmax (multinomial-logit) models with ten to millions of
classes towards the maximum-likelihood optimum. A step costs the same whatever
the number of classes. This package has the program with its man page and bash
completion, the C++ library, its headers and its CMake package.")
include(CPack)
