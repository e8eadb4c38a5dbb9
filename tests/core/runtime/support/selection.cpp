#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

std::string base64(const std::string& plain) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : plain + std::string((3 - (plain.size() % 3)) % 3, ' ')) {  // JSON may end in spaces
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) {
      out.push_back(kAlphabet[(bits >> (count - 6)) & 0x3FU]);
    }
  }
  return out;
}

std::string record_of(const std::vector<FakeProfile>& profiles) {
  std::string text = R"({"schema":1,"profiles":[)";
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const auto shape = [](std::int64_t n) { return "[" + std::to_string(n) + ",3]"; };
    text += std::string(i == 0 ? "" : ",") + R"({"name":")" + static_cast<char>('a' + i) +
            R"(","inputs":{"x":{"min":)" + shape(profiles[i].min) + R"(,"opt":)" + shape(profiles[i].min) +
            R"(,"max":)" + shape(profiles[i].max) + "}}}";
  }
  return text + "]}";
}

}  // namespace

c10::IValue call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow((std::string("tensorrt::") + name).c_str(), "").callBoxed(stack);
  return stack.empty() ? c10::IValue() : stack.back();
}

void pin(const EnginePtr& engine, std::int64_t index) {
  call("set_active_profile", {engine, index});
}
void unpin(const EnginePtr& engine) {
  call("clear_active_profile", {engine});
}
std::int64_t selected(const EnginePtr& engine) {
  return call("get_active_profile", {engine}).toInt();
}
std::int64_t counter(const EnginePtr& engine, const std::string& name) {
  return call("get_profile_counters", {engine}).toGenericDict().at(name).toInt();
}

c10::impl::GenericList list_of(const std::vector<EnginePtr>& engines) {
  const c10::impl::GenericList list(torch::getCustomClass("__torch__.torch.classes.tensorrt.Engine"));
  for (const auto& engine : engines) {
    list.push_back(engine);
  }
  return list;
}
std::int64_t push(const std::vector<EnginePtr>& engines, const std::vector<std::int64_t>& indices,
                  const c10::IValue& others, bool falls_back) {
  return call("_push_profile_scope", {list_of(engines), c10::List<std::int64_t>(indices), others, falls_back}).toInt();
}
void pop(std::int64_t token) {
  op<void, std::int64_t>("_pop_profile_scope", token);
}

std::string metadata_with(const std::string& record) {
  return base64(std::string("\0torch_tensorrt_profiles\0", 25) + record);
}

EnginePtr recorded(const std::vector<FakeProfile>& profiles) {
  FakeOptions options;
  options.profiles = profiles;
  options.serialized_metadata = metadata_with(record_of(profiles));
  return make_engine(std::move(options));
}

std::pair<std::int64_t, std::string> explain(const EnginePtr& engine, const std::optional<std::int64_t>& extent) {
  torch::jit::Stack stack{engine};
  if (extent) {
    stack.emplace_back(c10::List<c10::List<std::int64_t>>({c10::List<std::int64_t>({*extent, 3})}));
  } else {
    stack.emplace_back();
  }
  c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::_explain_profile", "").callBoxed(stack);
  return {stack.at(0).toInt(), stack.at(1).toStringRef()};
}

}  // namespace torch_tensorrt::profiles::testing
