# attend_find_package(NAME OLDEST) is find_package(NAME REQUIRED) for a package of version OLDEST or later. CMake's own
# check, by a file of the package, mostly takes another major version for the wrong one: newer ones are welcome here.
macro(attend_find_package name oldest)
  find_package(${name} REQUIRED)
  if(DEFINED ${name}_VERSION AND ${name}_VERSION VERSION_LESS ${oldest})
    message(FATAL_ERROR "${name} has version ${${name}_VERSION} in ${${name}_DIR}, expected ${oldest} or later")
  endif()
endmacro()
