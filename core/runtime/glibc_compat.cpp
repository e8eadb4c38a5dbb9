// libstdc++ reads glibc's __libc_single_threaded (GLIBC_2.32) wherever <memory> counts references. Defined here,
// hidden, the library loads on manylinux_2_28 as well. False is always right: it only costs the atomic instruction.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier,cppcoreguidelines-avoid-non-const-global-variables): glibc's own name
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
