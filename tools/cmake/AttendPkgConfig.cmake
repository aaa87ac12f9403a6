# attend_pkg_config(LIBRARY DESCRIPTION [REQUIRES PACKAGE ...] [NEEDS_PACKAGES PACKAGE ...] [NEEDS FILE_OR_OPTION ...])
# installs LIBRARY.pc, which finds the library from where it lies itself. REQUIRES are packages whose headers those of
# the library include. NEEDS_PACKAGES and NEEDS are what the library's own code calls. Who links a static library links
# that too, be it with pkg-config's --static or without: no shared one is installed beside it.
function(attend_pkg_config library description)
  cmake_parse_arguments(PARSE_ARGV 2 its "" "" "REQUIRES;NEEDS_PACKAGES;NEEDS")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
    OUTPUT_VARIABLE up)
  set(includedir "\${prefix}")
  cmake_path(APPEND includedir ${CMAKE_INSTALL_INCLUDEDIR})  # an absolute one replaces the prefix
  set(libdir "\${prefix}")
  cmake_path(APPEND libdir ${CMAKE_INSTALL_LIBDIR})
  set(needs "")
  foreach(need IN LISTS its_NEEDS)
    if(IS_ABSOLUTE "${need}")
      cmake_path(GET need PARENT_PATH directory)
      cmake_path(GET need STEM name)
      string(REGEX REPLACE "^lib" "-l" need ${name})
      if(NOT directory IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND needs -L${directory})
      endif()
    endif()
    list(APPEND needs ${need})
  endforeach()
  set(libs -l${library})
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND its_REQUIRES ${its_NEEDS_PACKAGES})
    list(APPEND libs ${needs})
    set(its_NEEDS_PACKAGES "")
    set(needs "")
  endif()
  list(JOIN its_REQUIRES ", " requires)
  list(JOIN its_NEEDS_PACKAGES ", " private_requires)
  list(JOIN libs " " libs)
  list(JOIN needs " " private_libs)
  file(CONFIGURE OUTPUT ${library}.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
includedir=@includedir@
libdir=@libdir@

Name: @library@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @requires@
Requires.private: @private_requires@
Cflags: -I${includedir}
Libs: -L${libdir} @libs@
Libs.private: @private_libs@
]])
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
