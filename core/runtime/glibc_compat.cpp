// What a build on a newer Linux asks of glibc and manylinux_2_28 does not have, defined here and hidden, so that the
// library loads there. tests/py/packaging/test_library_needs.py says when another name belongs here.
#include <dlfcn.h>
#include <pthread.h>

// libstdc++ reads glibc's __libc_single_threaded (GLIBC_2.32) wherever <memory> counts references. False is always
// right: it only costs the atomic instruction.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier,cppcoreguidelines-avoid-non-const-global-variables): glibc's own name
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

// glibc 2.34 moved libdl and libpthread into libc and gave their functions a second version, GLIBC_2.34. The first one
// is in every glibc; where libdl and libpthread are apart, libtorch_cpu.so brings them along. An older glibc has that
// one only, and there a linker may take the function below for it. Sanitizers put their own functions in their place.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)
#if __GLIBC_PREREQ(2, 34)
#if defined(__x86_64__)
#define FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_GLIBC "GLIBC_2.17"
#endif
#endif
#endif

#ifdef FIRST_GLIBC
// NOLINTBEGIN(bugprone-macro-parentheses,cppcoreguidelines-macro-usage): types, and names for the assembler
#define CALL_FIRST_VERSION(result, name, parameters, arguments)                      \
  __asm__(".symver first_" #name ", " #name "@" FIRST_GLIBC);                        \
  extern "C" result first_##name parameters noexcept;                                \
  extern "C" __attribute__((visibility("hidden"))) result name parameters noexcept { \
    return first_##name arguments;                                                   \
  }
// NOLINTEND(bugprone-macro-parentheses,cppcoreguidelines-macro-usage)

CALL_FIRST_VERSION(int, dladdr, (const void* address, Dl_info* info), (address, info))
CALL_FIRST_VERSION(void*, dlopen, (const char* file, int mode), (file, mode))
CALL_FIRST_VERSION(void*, dlsym, (void* handle, const char* name), (handle, name))
CALL_FIRST_VERSION(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
CALL_FIRST_VERSION(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))
CALL_FIRST_VERSION(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
#endif
