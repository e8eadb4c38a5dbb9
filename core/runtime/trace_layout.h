#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace torch_tensorrt::profiles {

class TraceLayout;

// An engine's right to a folder under a trace prefix, given back when this object dies.
class TraceClaim {
 public:
  TraceClaim(TraceLayout& layout, std::string prefix, std::string folder, std::string taken);
  ~TraceClaim();
  TraceClaim(const TraceClaim&) = delete;
  TraceClaim& operator=(const TraceClaim&) = delete;
  TraceClaim(TraceClaim&&) = delete;
  TraceClaim& operator=(TraceClaim&&) = delete;

  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  TraceLayout& layout_;
  std::string prefix_;
  std::string folder_;
  std::string taken_;
  pid_t process_;
};

// What engines.<pid>.json says of one engine.
struct TraceRecord {
  std::string engine;
  std::uintptr_t object = 0;
  int device = -1;
  std::string folder;
  std::string format;
  std::optional<std::int64_t> rank;
  std::vector<std::string> profile_names;
  std::string profile;  // the one that its context is for; "": it runs every profile
};

// Who writes where. An engine writes into the prefix itself as long as it is the only live one of its name there, in
// all processes of the host; under a distributed launch, and for every further engine of a name, there is a folder
// <engine>.<pid>[.r<RANK>][.<profile>][.<n>], n only where that folder is taken or was left by an earlier process. The
// profile is there for a context that an engine has for that profile alone, which never writes into the prefix itself.
//
// Between processes the right to the prefix is a lock on one byte of <prefix>/.torchtrt_profiles.lock, chosen by the
// engine's name: it cannot outlive its process, as a marker file would. Where the file cannot be locked, a folder is
// used.
class TraceLayout {
 public:
  // Makes the folder. Throws std::runtime_error where that fails.
  std::unique_ptr<TraceClaim> claim(const std::string& prefix, const std::string& engine,
                                    std::optional<std::int64_t> rank, const std::string& profile = {});
  // Writes <prefix>/engines.<pid>.json with this engine in it. Engines that are gone stay in: their files do.
  void record(const std::string& prefix, const TraceRecord& record);

 private:
  friend class TraceClaim;

  class LockFile {
   public:
    explicit LockFile(const std::string& path);
    ~LockFile();
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;
    LockFile(LockFile&&) = delete;
    LockFile& operator=(LockFile&&) = delete;

    [[nodiscard]] bool lock(const std::string& name) const { return set(name, true); }
    void unlock(const std::string& name) const { set(name, false); }

   private:
    bool set(const std::string& name, bool locked) const;  // NOLINT(modernize-use-nodiscard): unlocking does not fail
    int descriptor_;
  };

  struct Prefix {
    explicit Prefix(const std::string& path) : lock_file(path + "/.torchtrt_profiles.lock") {}
    LockFile lock_file;
    std::set<std::string> taken;      // engine names that write into the prefix itself, and folders
    std::set<std::string> made_here;  // folders that this process made
    std::map<std::string, TraceRecord> records;
  };

  Prefix& at(const std::string& prefix);
  void release(const std::string& prefix, const std::string& taken);

  std::mutex mutex_;  // a leaf: nothing else is locked, and no engine dropped, under it
  std::map<std::string, Prefix> prefixes_;
  pid_t process_ = -1;  // whose claims these are: a forked child starts with none
};

}  // namespace torch_tensorrt::profiles
