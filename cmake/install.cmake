# `cmake --install`: the library, its headers, the tool, and what find_package and pkg-config need.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tscompile_library tscompile_c_shared EXPORT tscompileTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tscompile)
  install(TARGETS tscompile RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET tscompile AND NOT CMAKE_CROSSCOMPILING)
  find_program(TSCOMPILE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  install(CODE "set(TOOL \"$<TARGET_FILE:tscompile>\")
    set(PYTHON \"${TSCOMPILE_PYTHON}\")
    set(SCRIPT \"${PROJECT_SOURCE_DIR}/cmake/man_pages.py\")
    set(MAN \"${CMAKE_INSTALL_MANDIR}\")
    set(SHARE \"${CMAKE_INSTALL_DATADIR}\")")
  install(SCRIPT cmake/tool_pages.cmake)
endif()
install(EXPORT tscompileTargets NAMESPACE tscompile:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tscompile)

# The public headers: what programs, rewriters and authors of plugins are told to include, and what these include. They
# keep their folders below include/tscompile; users include <tscompile/compiler.h>.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/api/*.h)
list(APPEND public_headers ir/graph/expression.h passes/lowering/clean_up.h passes/rewrite/managers.h
  runtime/plugin/plugin_sdk.h api/texts/text_server.h api/binding/reports.h)
set(unread ${public_headers})
while(unread)
  list(POP_FRONT unread header)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
    if(NOT included IN_LIST public_headers)
      list(APPEND public_headers ${included})
      list(APPEND unread ${included})
    endif()
  endforeach()
endwhile()
foreach(header ${public_headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tscompile/${folder})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_headers})
install(FILES ${PROJECT_SOURCE_DIR}/api/c/tscompile.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tscompile)
file(WRITE ${PROJECT_BINARY_DIR}/compiler.h "#pragma once\n#pragma GCC system_header\n#include \"api/binding/reports.h\"\n#include \"api/compiler.h\"\n")
install(FILES ${PROJECT_BINARY_DIR}/compiler.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tscompile)

configure_package_config_file(cmake/tscompileConfig.cmake.in ${PROJECT_BINARY_DIR}/tscompileConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tscompile)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tscompileConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tscompileConfig.cmake ${PROJECT_BINARY_DIR}/tscompileConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tscompile)

# Who links the static library links what its inside uses; tscompileTargets.cmake says the same to CMake.
if(NOT BUILD_SHARED_LIBS)
  set(PC_STATIC_LIBS "-lre2 -lutf8proc ")
endif()
# The prefix as seen from the .pc file, so that the tree can be moved.
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tscompile.pc.in ${PROJECT_BINARY_DIR}/tscompile.pc @ONLY)
configure_file(cmake/tscompile-c.pc.in ${PROJECT_BINARY_DIR}/tscompile-c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tscompile.pc ${PROJECT_BINARY_DIR}/tscompile-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What help and messages refer to; samples lie beside, as documents name them by paths below the folder of README.md.
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT documents FILES_MATCHING PATTERN "*.md")
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(DIRECTORY samples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/samples USE_SOURCE_PERMISSIONS COMPONENT documents
  PATTERN "__pycache__" EXCLUDE)

# What messages name: the script that exports models from PyTorch.
install(PROGRAMS samples/export_torchscript.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tscompile)
install(FILES samples/torch_values.py samples/seeded.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tscompile)

# What JSON outputs hold, for programs that check it.
install(DIRECTORY tools/schemas/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tscompile/schemas FILES_MATCHING PATTERN "*.json")
