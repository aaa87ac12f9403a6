# Finds oneDNN's header and library. Its own CMake package is not used: Debian's asks for OpenCL development files that
# libdnnl-dev does not bring, and it takes no major version for another.
find_path(OneDNN_INCLUDE_DIR dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
foreach(OneDNN_header dnnl_version.h oneapi/dnnl/dnnl_version.h)  # before 2.0, and since
  if(EXISTS "${OneDNN_INCLUDE_DIR}/${OneDNN_header}")
    file(STRINGS "${OneDNN_INCLUDE_DIR}/${OneDNN_header}" OneDNN_numbers
      REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
    list(TRANSFORM OneDNN_numbers REPLACE "[^0-9]" "")
    list(JOIN OneDNN_numbers . OneDNN_VERSION)
  endif()
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
