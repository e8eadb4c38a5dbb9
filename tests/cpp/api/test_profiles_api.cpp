// torch_tensorrt/profiles.h against the fake engine.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <type_traits>

#include "tests/core/runtime/support/fake_engine.h"
#include "torch_tensorrt/profiles.h"

namespace torch_tensorrt::profiles {
namespace {

using core::runtime::FakeOptions;
using core::runtime::TRTEngine;
using FakeEngine = c10::intrusive_ptr<TRTEngine>;

// base64(pickle.dumps({}) + MARK + JSON), made by dynamo/_metadata.py's append(): "prefill" of x [16..128, 3] with
// optimum 64, and "d\u00e9code \"1\"" of x [1, 3].
constexpr const char* kTwoProfiles =
    "gAR9lC4AdG9yY2hfdGVuc29ycnRfcHJvZmlsZXMAeyJwcm9maWxlcyI6W3siaW5wdXRzIjp7IngiOnsibWF4IjpbMTI4LDNdLCJtaW4iOlsxNiwzXS"
    "wi"
    "b3B0IjpbNjQsM119fSwibmFtZSI6InByZWZpbGwifSx7ImlucHV0cyI6eyJ4Ijp7Im1heCI6WzEsM10sIm1pbiI6WzEsM10sIm9wdCI6WzEsM119fS"
    "wi"
    "bmFtZSI6ImRcdTAwZTljb2RlIFwiMVwiIn1dLCJzY2hlbWEiOjF9";
// base64(MARK + JSON): a profile whose name is 1, and schema 2.
constexpr const char* kDamaged = "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoxLCJwcm9maWxlcyI6W3sibmFtZSI6MX1dfQ==";
constexpr const char* kNewer = "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoyLCJwcm9maWxlcyI6W119";
constexpr const char* kDecode =
    "d\xC3\xA9"
    "code \"1\"";

FakeEngine two_profiles() {
  return c10::make_intrusive<TRTEngine>(
      FakeOptions{.name = "llm", .profiles = {{16, 128}, {1, 1}}, .serialized_metadata = kTwoProfiles});
}

FakeEngine unnamed(std::size_t count = 1) {
  return c10::make_intrusive<TRTEngine>(
      FakeOptions{.name = "plain", .profiles = std::vector<core::runtime::FakeProfile>(count)});
}

void run(const FakeEngine& engine, std::int64_t extent) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "");
  torch::jit::Stack stack;
  stack.emplace_back(c10::List<at::Tensor>({at::ones({extent, 3})}));
  stack.emplace_back(engine);
  op.callBoxed(stack);
}

template <typename Error, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ProfilesApi : public ::testing::Test {
 protected:
  void SetUp() override {
    activate();
    folder_ = std::filesystem::path(::testing::TempDir()) / "profiles_api";
    std::filesystem::remove_all(folder_);
    before_ = profiling_config();
  }
  void TearDown() override {
    activate();
    set_profiling_config(before_);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  ProfilingConfig before_;
};

TEST_F(ProfilesApi, ActivationIsIdempotentAndCanBeTakenBack) {
  activate();
  EXPECT_TRUE(is_active());
  deactivate();
  EXPECT_FALSE(is_active());
  EXPECT_TRUE(contains(message_of<std::runtime_error>([] { set_profile_execution(true); }), "activate()"));
  const EngineHandle engine(two_profiles());
  EXPECT_TRUE(contains(message_of<std::runtime_error>([&] { static_cast<void>(engine.profiles()); }), "activate()"));
  activate();
  EXPECT_TRUE(is_active());
}

TEST_F(ProfilesApi, EachSetterChangesOneField) {
  const std::int64_t start = profile_generation();
  set_profile_path_prefix(folder().string());
  set_profile_format(TraceFormat::kTrex);
  set_profile_execution(true);
  EXPECT_TRUE(profile_execution());
  EXPECT_EQ(profile_format(), TraceFormat::kTrex);
  EXPECT_EQ(profile_path_prefix(), folder().string());
  EXPECT_EQ(profile_generation(), start + 3);
  set_profiling_config({.enabled = false, .format = TraceFormat::kPerfetto, .path_prefix = folder().string()});
  EXPECT_FALSE(profile_execution());
  EXPECT_EQ(profile_format(), TraceFormat::kPerfetto);
  EXPECT_EQ(profiling_config().generation, start + 4);
}

TEST_F(ProfilesApi, ABadFolderIsAnErrorAndChangesNothing) {
  const ProfilingConfig before = profiling_config();
  EXPECT_THROW(set_profile_path_prefix("/dev/null/folder"), c10::Error);
  EXPECT_THROW(set_profiling_config({.enabled = true, .path_prefix = "/dev/null/folder"}), c10::Error);
  EXPECT_EQ(profiling_config().generation, before.generation);
  EXPECT_FALSE(profile_execution());
}

TEST_F(ProfilesApi, ProfilingGuardRestoresAllOfIt) {
  set_profile_format(TraceFormat::kTrex);
  const ProfilingConfig before = profiling_config();
  const FakeEngine engine = unnamed();
  try {
    const ProfilingGuard guard({.enabled = true, .format = TraceFormat::kPerfetto, .path_prefix = folder().string()});
    run(engine, 2);
    EXPECT_TRUE(engine->is_profiling());
    set_profile_path_prefix((folder() / "deeper").string());
    throw std::runtime_error("of the block");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "of the block");
  }
  const ProfilingConfig after = profiling_config();
  EXPECT_FALSE(after.enabled);
  EXPECT_EQ(after.format, before.format);
  EXPECT_EQ(after.path_prefix, before.path_prefix);
  run(engine, 2);
  EXPECT_FALSE(engine->is_profiling());
  EXPECT_TRUE(std::filesystem::exists(folder() / "plain_engine_execution_profile.trace"));
  EXPECT_TRUE(contains(engine_timing(), "\"engine\": \"plain\""));
}

TEST_F(ProfilesApi, ProfilingGuardWhoseFolderIsGoneStillTurnsProfilingOff) {
  set_profile_path_prefix((folder() / "old").string());
  {
    const ProfilingGuard guard({.enabled = true, .path_prefix = (folder() / "new").string()});
    std::filesystem::remove_all(folder() / "old");
    std::filesystem::copy_file("/proc/self/status", folder() / "old");
  }
  EXPECT_FALSE(profile_execution());
  std::filesystem::remove_all(folder());
}

TEST_F(ProfilesApi, ProfilingGuardThatCannotBeSetRestoresNothing) {
  const std::int64_t generation = profile_generation();
  EXPECT_THROW(ProfilingGuard({.enabled = true, .path_prefix = "/dev/null/folder"}), c10::Error);
  EXPECT_FALSE(profile_execution());
  EXPECT_GE(profile_generation(), generation);
}

TEST_F(ProfilesApi, NamesAndRangesOfAnEngine) {
  const EngineHandle engine(two_profiles());
  EXPECT_EQ(engine.name(), "llm");
  EXPECT_EQ(engine.profile_count(), 2);
  const std::vector<Profile> profiles = engine.profiles();
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0].name, "prefill");
  EXPECT_EQ(profiles[1].name, kDecode);
  const ShapeRange& prefill = profiles[0].inputs.at("x");
  EXPECT_EQ(prefill.min, (std::vector<std::int64_t>{16, 3}));
  EXPECT_EQ(prefill.opt, (std::vector<std::int64_t>{64, 3}));
  EXPECT_EQ(prefill.max, (std::vector<std::int64_t>{128, 3}));
}

TEST_F(ProfilesApi, AnEngineWithoutARecord) {
  for (const std::size_t count : {1U, 3U}) {
    const auto profiles = EngineHandle(unnamed(count)).profiles();
    ASSERT_EQ(profiles.size(), count);
    EXPECT_EQ(profiles[0].name, "");
    EXPECT_TRUE(profiles[0].inputs.empty());
  }
}

TEST_F(ProfilesApi, ARecordThatDoesNotSayWhatThereIs) {
  const auto message = [](const char* metadata) {
    const EngineHandle engine(c10::make_intrusive<TRTEngine>(
        FakeOptions{.name = "llm", .profiles = {{1, 9}}, .serialized_metadata = metadata}));
    return message_of<c10::Error>([&] { static_cast<void>(engine.profiles()); });
  };
  EXPECT_TRUE(contains(message(kTwoProfiles), "engine 'llm' holds 1 optimization profile(s)"));
  EXPECT_TRUE(contains(message(kDamaged), "engine 'llm': the record of its optimization profiles is damaged"));
  EXPECT_TRUE(contains(message(kNewer), "has schema 2"));
}

TEST_F(ProfilesApi, WhatIsNoEngineIsNoHandle) {
  EXPECT_THROW(EngineHandle(c10::IValue(1)), std::invalid_argument);
  EXPECT_THROW(EngineHandle(c10::IValue(at::ones({1}))), std::invalid_argument);
}

TEST_F(ProfilesApi, AProfileByNameAndByIndexInNestedBlocks) {
  const FakeEngine engine = two_profiles();
  const std::vector<EngineHandle> engines{EngineHandle(engine)};
  {
    const OptimizationProfileGuard outer(engines, kDecode);
    run(engine, 1);
    {
      const OptimizationProfileGuard inner(engines, 0);
      run(engine, 64);
    }
    run(engine, 1);
  }
  run(engine, 64);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{1, 0, 1, 0}));
}

TEST_F(ProfilesApi, Automatic) {
  const FakeEngine engine = two_profiles();
  const OptimizationProfileGuard guard({EngineHandle(engine)}, automatic);
  run(engine, 1);
  run(engine, 100);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{1, 0}));
}

TEST_F(ProfilesApi, AShapeThatTheProfileDoesNotTake) {
  const FakeEngine engine = two_profiles();
  {
    const OptimizationProfileGuard guard({EngineHandle(engine)}, "prefill");
    EXPECT_ANY_THROW(run(engine, 1));
  }
  const OptimizationProfileGuard guard({EngineHandle(engine)}, "prefill", OnMisfit::kFallBack);
  run(engine, 1);
  EXPECT_EQ(engine->profiles_run.back(), 1);
}

TEST_F(ProfilesApi, ABlockIsItsThreads) {
  const FakeEngine engine = two_profiles();
  const OptimizationProfileGuard guard({EngineHandle(engine)}, 1);
  std::thread([&engine] { run(engine, 64); }).join();
  run(engine, 1);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(ProfilesApi, AProfileThatDoesNotExist) {
  const std::vector<EngineHandle> named{EngineHandle(two_profiles())};
  const std::vector<EngineHandle> plain{EngineHandle(unnamed())};
  const auto select = [](const std::vector<EngineHandle>& engines, const ProfileChoice& choice) {
    const OptimizationProfileGuard guard(engines, choice);
  };
  std::string message = message_of<std::invalid_argument>([&] { select(named, "decode"); });
  EXPECT_TRUE(contains(message, "unknown optimization profile 'decode'")) << message;
  EXPECT_TRUE(contains(message, "'prefill'")) << message;
  message = message_of<std::invalid_argument>([&] { select(named, ""); });
  EXPECT_TRUE(contains(message, "unknown optimization profile ''")) << message;
  message = message_of<std::invalid_argument>([&] { select(plain, "decode"); });
  EXPECT_TRUE(contains(message, "no profile names")) << message;
  message = message_of<std::out_of_range>([&] { select(named, 2); });
  EXPECT_TRUE(contains(message, "engine 'llm', which has profiles 0 to 1")) << message;
  message = message_of<std::out_of_range>([&] { select(plain, 1); });
  EXPECT_TRUE(contains(message, "profiles 0 to 0")) << message;
  EXPECT_THROW(select(named, -1), std::out_of_range);
  EXPECT_THROW(select(named, ~std::uint64_t{0}), std::out_of_range);
  EXPECT_THROW(select({}, 0), std::invalid_argument);
}

TEST_F(ProfilesApi, EnginesWithOneProfileAreLeftAlone) {
  const FakeEngine one = unnamed();
  const FakeEngine two = two_profiles();
  const OptimizationProfileGuard guard({EngineHandle(one), EngineHandle(two)}, 1);
  run(one, 5);
  run(two, 1);
  EXPECT_EQ(one->profiles_run, std::vector<std::int64_t>{0});
  EXPECT_EQ(two->profiles_run, std::vector<std::int64_t>{1});
}

TEST_F(ProfilesApi, WhatConvertsToAChoice) {
  static_assert(std::is_convertible_v<int, ProfileChoice>);
  static_assert(std::is_convertible_v<std::size_t, ProfileChoice>);
  static_assert(std::is_convertible_v<const char*, ProfileChoice>);
  static_assert(std::is_convertible_v<std::string, ProfileChoice>);
  static_assert(std::is_convertible_v<std::string_view, ProfileChoice>);
  static_assert(std::is_convertible_v<Automatic, ProfileChoice>);
  static_assert(!std::is_constructible_v<ProfileChoice, bool>);
  static_assert(!std::is_constructible_v<ProfileChoice, std::nullptr_t>);
  static_assert(!std::is_constructible_v<ProfileChoice, double>);
  static_assert(!std::is_constructible_v<ProfileChoice, int*>);
  static_assert(!std::is_copy_constructible_v<OptimizationProfileGuard>);
  static_assert(!std::is_move_constructible_v<OptimizationProfileGuard>);
  static_assert(!std::is_copy_constructible_v<ProfilingGuard>);
  static_assert(std::is_invocable_v<void (*)(bool), bool>);
}

}  // namespace
}  // namespace torch_tensorrt::profiles
