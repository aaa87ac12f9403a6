# The instruction sets that kernels are compiled for. Highway decides by the compiler and its flags; ATTEND_TARGETS takes
# away what is not named in it. What must run on any CPU of the compiler's flags (Highway's static target: SCALAR on
# Debian 12, SSE2 with Highway 1.2) is always compiled: foreach_target.h ends with it.

# attend_compiled_targets(OUT [DEFINITION ...]) sets OUT to the names of the targets, as `attend targets` prints them, that
# Highway compiles under these definitions, the best of an architecture first.
function(attend_compiled_targets out)
  get_target_property(directories hwy::hwy INTERFACE_INCLUDE_DIRECTORIES)
  find_path(ATTEND_HIGHWAY_INCLUDE_DIR hwy/detect_targets.h HINTS ${directories})
  mark_as_advanced(ATTEND_HIGHWAY_INCLUDE_DIR)
  # Every target of every architecture is one bit there. Which are compiled, only the preprocessor knows.
  set(bit_pattern "^#define HWY_([A-Z0-9_]+) \\(1LL << [0-9]+\\).*")
  file(STRINGS ${ATTEND_HIGHWAY_INCLUDE_DIR}/hwy/detect_targets.h lines REGEX "${bit_pattern}")
  set(probe "#include <hwy/detect_targets.h>\nconst char text[] = \"compiled targets:\"\n")
  foreach(line ${lines})
    string(REGEX REPLACE "${bit_pattern}" "\\1" name "${line}")
    string(APPEND probe "#if HWY_TARGETS & HWY_${name}\n\" ${name}\"\n#endif\n")
  endforeach()
  string(APPEND probe ";\nint main(int argc, char**) { return text[argc]; }\n")
  list(TRANSFORM ARGN PREPEND -D)
  try_compile(compiles SOURCE_FROM_VAR attend_targets.cc probe COMPILE_DEFINITIONS ${ARGN} LINK_LIBRARIES hwy::hwy
    COPY_FILE ${CMAKE_CURRENT_BINARY_DIR}/attend_targets OUTPUT_VARIABLE log)
  if(NOT compiles)
    message(FATAL_ERROR "Highway's list of targets does not compile:\n${log}")
  endif()
  file(STRINGS ${CMAKE_CURRENT_BINARY_DIR}/attend_targets text REGEX "compiled targets:")
  string(REGEX MATCHALL "[A-Z0-9_]+" names "${text}")
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# attend_target_definitions(OUT NAME ...) sets OUT to the definitions that make Highway compile the named targets, and the
# static one.
function(attend_target_definitions out)
  attend_compiled_targets(known HWY_COMPILE_ALL_ATTAINABLE HWY_WANT_AVX3_DL)
  set(bits HWY_BASELINE_TARGETS)
  foreach(name ${ARGN})
    if(NOT name IN_LIST known)
      list(JOIN known ", " names)
      message(FATAL_ERROR "ATTEND_TARGETS has \"${name}\", expected some of those that this compiler and Highway know: "
        "${names}")
    endif()
    list(APPEND bits HWY_${name})
  endforeach()
  list(JOIN bits "|" bits)
  set(definitions "HWY_DISABLED_TARGETS=(~(${bits}))")
  # What Highway compiles only if asked to.
  if("AVX3_DL" IN_LIST ARGN)
    list(APPEND definitions HWY_WANT_AVX3_DL)
  endif()
  if("SCALAR" IN_LIST ARGN OR "EMU128" IN_LIST ARGN)
    list(APPEND definitions HWY_COMPILE_ALL_ATTAINABLE)
  endif()
  set(${out} ${definitions} PARENT_SCOPE)
endfunction()
