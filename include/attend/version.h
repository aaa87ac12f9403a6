// The version: of these headers by macros, for C too; of the library by a function.
//
// Simplest use: nothing; find_package(attend MAJOR.MINOR) and pkg-config ask for versions too.
// Recommended in a log, since a shared library may not be the one that the program was compiled with:
//     log("attend ", attend::version(), ", headers ", ATTEND_VERSION_STRING);
//
// Until 1.0 a minor version may change the interface, of sources and of binaries; a patch changes neither. The name of
// the shared library, libattend.so.MAJOR.MINOR, and the CMake package keep minor versions apart.
#ifndef ATTEND_VERSION_H_
#define ATTEND_VERSION_H_

// CMakeLists.txt reads these three lines.
#define ATTEND_VERSION_MAJOR 0
#define ATTEND_VERSION_MINOR 1
#define ATTEND_VERSION_PATCH 0

// "MAJOR.MINOR.PATCH"
#define ATTEND_VERSION_STRING ATTEND_VERSION_JOIN_(ATTEND_VERSION_MAJOR, ATTEND_VERSION_MINOR, ATTEND_VERSION_PATCH)
#define ATTEND_VERSION_JOIN_(major, minor, patch) ATTEND_VERSION_QUOTE_(major.minor.patch)
#define ATTEND_VERSION_QUOTE_(version) #version

#ifdef __cplusplus
namespace attend {

// "MAJOR.MINOR.PATCH" of the library that is linked: ATTEND_VERSION_STRING as that was compiled.
//   Thread-safety and allocation: thread-safe, allocates nothing; the text lives as long as the library is loaded.
const char* version() noexcept;

}  // namespace attend
#endif

#endif  // ATTEND_VERSION_H_
