// Whether this build has a sanitizer, which g++ and clang tell in two ways.
#ifndef ATTEND_TESTS_SUPPORT_SANITIZED_H_
#define ATTEND_TESTS_SUPPORT_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTEND_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATTEND_IS_SANITIZED 1
#endif
#endif
#ifndef ATTEND_IS_SANITIZED
#define ATTEND_IS_SANITIZED 0
#endif

#endif  // ATTEND_TESTS_SUPPORT_SANITIZED_H_
