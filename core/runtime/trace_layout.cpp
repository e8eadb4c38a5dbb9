#include "core/runtime/trace_layout.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "core/runtime/json.h"
#include "core/runtime/profile_path.h"
#include "core/runtime/trace_files.h"

namespace torch_tensorrt::profiles {
namespace {

namespace fs = std::filesystem;

// Another user's file of that name, in a shared temporary folder.
bool is_foreign(const std::string& file) {
  return ::access(file.c_str(), W_OK) != 0 && errno != ENOENT;
}

std::string folder_name(std::string engine, std::optional<std::int64_t> rank, const std::string& profile, int number) {
  std::ranges::replace(engine, '/', '_');
  std::string name = std::move(engine);
  name.append(".").append(std::to_string(::getpid()));
  if (rank) {
    name.append(".r").append(std::to_string(*rank));
  }
  if (!profile.empty()) {
    name += "." + profile;
  }
  if (number > 0) {
    name.append(".").append(std::to_string(number));
  }
  return name;
}

std::string as_json(const std::string& prefix, const TraceRecord& record) {
  std::ostringstream object;
  object << "0x" << std::hex << record.object;
  std::string names;
  for (const std::string& name : record.profile_names) {
    names += (names.empty() ? "" : ", ") + json::quote(name);
  }
  const std::string folder = record.folder == prefix ? "." : record.folder.substr(prefix.size() + 1);
  return "    {\"name\": " + json::quote(record.engine) + ", \"object_id\": " + json::quote(object.str()) +
         ", \"device\": " + std::to_string(record.device) + ", \"folder\": " + json::quote(folder) +
         ", \"format\": " + json::quote(record.format) +
         ", \"rank\": " + (record.rank ? std::to_string(*record.rank) : "null") + ", \"profile_names\": [" + names +
         "], \"profile\": " + (record.profile.empty() ? "null" : json::quote(record.profile)) + "}";
}

}  // namespace

TraceClaim::TraceClaim(TraceLayout& layout, std::string prefix, std::string folder, std::string taken)
    : layout_(layout),
      prefix_(std::move(prefix)),
      folder_(std::move(folder)),
      taken_(std::move(taken)),
      process_(::getpid()) {}

TraceClaim::~TraceClaim() {
  if (process_ == ::getpid()) {
    layout_.release(prefix_, taken_);
  }
}

TraceLayout::LockFile::LockFile(const std::string& path)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {}

TraceLayout::LockFile::~LockFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool TraceLayout::LockFile::set(const std::string& name, bool locked) const {
  if (descriptor_ < 0) {
    return false;
  }
  struct flock range {};
  range.l_type = static_cast<short>(locked ? F_WRLCK : F_UNLCK);
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(std::hash<std::string>()(name) & 0x3FFFFFFFFFFFFFFFU);
  range.l_len = 1;
  return ::fcntl(descriptor_, F_OFD_SETLK, &range) == 0;
}

TraceLayout::Prefix& TraceLayout::at(const std::string& prefix) {
  if (process_ != ::getpid()) {
    prefixes_.clear();
    process_ = ::getpid();
  }
  return prefixes_.try_emplace(prefix, prefix).first->second;
}

std::unique_ptr<TraceClaim> TraceLayout::claim(const std::string& prefix, const std::string& engine,
                                               std::optional<std::int64_t> rank, const std::string& profile) {
  const std::string problem = make_writable(prefix);
  if (!problem.empty()) {
    throw std::runtime_error("'" + prefix + "' cannot hold traces: " + problem);
  }
  const std::scoped_lock lock(mutex_);
  Prefix& state = at(prefix);
  if (!rank && profile.empty() && !state.taken.contains(engine) &&
      !is_foreign(prefix + "/" + engine + "_engine_execution_profile.trace") && state.lock_file.lock(engine)) {
    state.taken.insert(engine);
    return std::make_unique<TraceClaim>(*this, prefix, prefix, engine);
  }
  for (int number = 0;; ++number) {
    const std::string name = folder_name(engine, rank, profile, number);
    std::string folder = prefix;
    folder.append("/").append(name);
    if (state.taken.contains(name) || (fs::exists(folder) && !state.made_here.contains(name))) {
      continue;
    }
    fs::create_directory(folder);
    state.made_here.insert(name);
    state.taken.insert(name);
    return std::make_unique<TraceClaim>(*this, prefix, folder, name);
  }
}

void TraceLayout::release(const std::string& prefix, const std::string& taken) {
  const std::scoped_lock lock(mutex_);
  Prefix& state = at(prefix);
  state.taken.erase(taken);
  state.lock_file.unlock(taken);
}

void TraceLayout::record(const std::string& prefix, const TraceRecord& record) {
  const std::scoped_lock lock(mutex_);
  Prefix& state = at(prefix);
  state.records[record.folder + "/" + record.engine] = record;
  std::string engines;
  for (const auto& [key, known] : state.records) {
    engines += (engines.empty() ? "" : ",\n") + as_json(prefix, known);
  }
  replace_file(prefix + "/engines." + std::to_string(::getpid()) + ".json",
               "{\"pid\": " + std::to_string(::getpid()) + ", \"engines\": [\n" + engines + "\n  ]}\n");
}

}  // namespace torch_tensorrt::profiles
