// The process-wide configuration through its operators.
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Config = CoreTest;

TEST_F(Config, GettersGiveWhatWasSet) {
  set_enabled(true);
  set_format("trex");
  set_prefix(folder("a"));
  EXPECT_TRUE(op<bool>("get_profile_execution"));
  EXPECT_EQ(op<std::string>("get_profile_format"), "trex");
  EXPECT_EQ(op<std::string>("get_profile_path_prefix"), folder("a"));
  EXPECT_EQ(config(), std::make_tuple(true, std::string("trex"), folder("a"), generation()));
}

TEST_F(Config, EachSetAddsOneAlsoWithTheSameValue) {
  const auto start = generation();
  set_enabled(false);
  set_enabled(false);
  set_format("perfetto");
  set_prefix(folder());
  EXPECT_EQ(generation(), start + 4);
  op<void, bool, std::string, std::string>("set_profiling_config", true, "trex", folder("b"));
  EXPECT_EQ(generation(), start + 5);
}

TEST_F(Config, FolderIsMadeAndResolvedWhenSet) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder());
  set_prefix("x/../y/z/");
  std::filesystem::current_path(before);
  EXPECT_EQ(op<std::string>("get_profile_path_prefix"), folder("y/z"));
  EXPECT_TRUE(std::filesystem::is_directory(folder("y/z")));
}

struct BadInput {
  const char* what;
  std::function<void(const std::string& folder)> set;
  std::vector<std::string> message;
};

TEST_F(Config, BadInputChangesNothingAndSaysWhatToDo) {
  std::ofstream(folder("file")) << "x";
  const std::vector<BadInput> table{
      {"unknown format", [](auto&) { set_format("chrome"); }, {"'chrome'", "'perfetto'", "'trex'"}},
      {"format in capitals", [](auto&) { set_format("TREX"); }, {"'TREX'"}},
      {"empty path", [](auto&) { set_prefix(""); }, {"empty", "can write"}},
      {"a file", [](auto& at) { set_prefix(at + "/file"); }, {"/file'", "not a folder"}},
      {"below a file", [](auto& at) { set_prefix(at + "/file/x"); }, {"/file/x'", "cannot be made"}},
      {"not writable", [](auto&) { set_prefix("/proc/torchtrt"); }, {"/proc/torchtrt'"}},
      {"no files in it", [](auto&) { set_prefix("/proc"); }, {"'/proc'", "no file can be made"}},
      {"NUL", [](auto& at) { set_prefix(at + std::string("/a\0b", 4)); }, {"NUL"}},
      {"all at once",
       [](auto& at) { op<void, bool, std::string, std::string>("set_profiling_config", true, "nsys", at); },
       {"'nsys'"}},
      {"all at once, bad path",
       [](auto&) { op<void, bool, std::string, std::string>("set_profiling_config", true, "trex", ""); },
       {"empty"}}};
  const auto before = config();
  for (const auto& bad : table) {
    const std::string message = message_of([&] { bad.set(folder()); });
    EXPECT_THROW(bad.set(folder()), c10::ValueError) << bad.what;
    for (const auto& part : bad.message) {
      EXPECT_NE(message.find(part), std::string::npos) << bad.what << ": " << message;
    }
    EXPECT_EQ(config(), before) << bad.what;
  }
}

TEST_F(Config, FolderWithoutWritePermissionIsRefused) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write anywhere; /proc in the table stands for it";
  }
  std::filesystem::create_directory(folder("closed"));
  std::filesystem::permissions(folder("closed"), std::filesystem::perms::owner_read);
  EXPECT_THROW(set_prefix(folder("closed")), c10::ValueError);
  std::filesystem::permissions(folder("closed"), std::filesystem::perms::owner_all);
}

TEST_F(Config, SnapshotNeverMixesRevisions) {
  constexpr int kWriters = 8;
  constexpr int kSets = 200;
  for (int i = 0; i < kWriters; ++i) {
    std::filesystem::create_directory(folder(std::to_string(i)));
  }
  op<void, bool, std::string, std::string>("set_profiling_config", false, "perfetto", folder("0"));
  const auto start = generation();
  std::atomic<int> running{kWriters};
  std::vector<std::thread> threads;
  threads.reserve(kWriters);
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([this, i, &running] {
      for (int n = 0; n < kSets; ++n) {
        // Odd writers are enabled with trex, even ones disabled with perfetto.
        op<void, bool, std::string, std::string>("set_profiling_config", i % 2 == 1, i % 2 == 1 ? "trex" : "perfetto",
                                                 folder(std::to_string(i)));
        EXPECT_THROW(set_format("bad"), c10::ValueError);
      }
      --running;
    });
  }
  auto last = start;
  while (running > 0) {
    const auto [enabled, format, prefix, now] = config();
    EXPECT_EQ(enabled, (prefix.back() - '0') % 2 == 1);
    EXPECT_EQ(format, enabled ? "trex" : "perfetto");
    EXPECT_GE(now, last);
    last = now;
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(generation(), start + (std::int64_t{kWriters} * kSets));
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
