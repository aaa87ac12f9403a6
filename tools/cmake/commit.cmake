cmake_minimum_required(VERSION 3.25)
# cmake -DSOURCE=DIR -DOUTPUT=FILE -P commit.cmake: writes ATTEND_COMMIT, the commit of DIR, into the header FILE.
# "-dirty" behind it where tracked files differ from it; "unknown" outside git and where DIR is but a folder of some
# other repository. Run at every build; the file is touched only when the commit changes.
set(commit "unknown")
find_program(git NAMES git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --show-cdup
    OUTPUT_VARIABLE up ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE outside)
  if(outside EQUAL 0 AND up STREQUAL "")
    execute_process(COMMAND ${git} -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty
      OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(NOT failed EQUAL 0)
      set(commit "unknown")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ATTEND_COMMIT \"@commit@\"\n" @ONLY)
