# Cross-builds for 64-bit Arm with Debian's packages (g++-aarch64-linux-gnu, libhwy-dev:arm64, ...); what is built runs
# under qemu-user where that is installed. tools/test-aarch64.sh does all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# No sysroot: Debian keeps foreign libraries beside its own, in /usr/lib/aarch64-linux-gnu, and the emulator finds their
# loader in /lib. What was installed by hand is of the build machine's architecture.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_IGNORE_PREFIX_PATH /usr/local)

find_program(ATTEND_QEMU_AARCH64 qemu-aarch64)
mark_as_advanced(ATTEND_QEMU_AARCH64)
if(ATTEND_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ATTEND_QEMU_AARCH64})
endif()
