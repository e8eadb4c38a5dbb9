#pragma once

#include <cstdint>

// The library's whole C interface: loading it registers nothing. What returns text returns null on success, otherwise
// what is wrong and what to do; the text is the library's and lasts until the thread's next call.
extern "C" {
const char* torchtrt_profiles_activate() noexcept;
const char* torchtrt_profiles_deactivate() noexcept;

// What the operators _push_prepared_profile_scope and _pop_profile_scope do, for callers who count every microsecond.
// A push returns the token that the pop takes, 0 for a number that is not kept.
std::int64_t torchtrt_profiles_push_scope(std::int64_t number) noexcept;
const char* torchtrt_profiles_pop_scope(std::int64_t token) noexcept;
}
