// Trace files: always valid JSON, with the profiler's names and durations, each engine's in its place.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/runtime/json.h"
#include "core/runtime/trace_files.h"
#include "core/runtime/trace_layout.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

const std::vector<FakeLayer> kNastyLayers{{"plain", 0.5F},
                                          {"quote \" and \", inside", 0.25F},
                                          {"back\\slash \\n", 0.125F},
                                          {"new\nline", 1.5F},
                                          {"n\xC3\xA4me \xE2\x82\xAC", 2.0F},
                                          {"bytes \xFF\xFE", 0.75F},
                                          {"a \",\n    \"ph\": \"X\", b", 0.375F},
                                          {"{\"name\": \"nested\"}", 0.0625F}};

json::Value parsed(const std::string& path) {
  auto value = json::parse(read(path));
  EXPECT_TRUE(value) << path << " is no JSON:\n" << read(path);
  return value ? *std::move(value) : json::Value();
}

double number(const json::Value& object, const char* key) {
  return std::get<double>(object.find(key)->data);
}

// Name and milliseconds of each layer in an execution trace of either format.
std::vector<std::pair<std::string, double>> layers_in(const std::string& path) {
  std::vector<std::pair<std::string, double>> layers;
  const json::Value trace = parsed(path);
  for (const auto& record : *trace.array()) {
    if (record.find("timeMs") != nullptr) {
      layers.emplace_back(*record.find("name")->string(), number(record, "timeMs"));
    } else if (*record.find("ph")->string() == "X") {
      layers.emplace_back(*record.find("name")->string(), number(record, "dur") / 1000);
    }
  }
  return layers;
}

class Traces : public CoreTest {
 protected:
  void TearDown() override {
    ::unsetenv("RANK");
    ::unsetenv("WORLD_SIZE");
    CoreTest::TearDown();
  }
};

TEST_F(Traces, EveryFileIsJsonWhateverTheLayersAreCalled) {
  for (const char* format : {"perfetto", "trex"}) {
    const auto engine = make_engine({.layers = kNastyLayers});
    set_format(format);
    set_enabled(true);
    run(engine);
    run(engine);
    for (const char* file : {"device_config_profile.trace", "input_profile.trace", "output_profile.trace",
                             "enqueue_profile.trace", "engine_execution_profile.trace", "layer_information.json"}) {
      parsed(folder(std::string("engine_") + file));
    }
    const auto layers = layers_in(folder("engine_engine_execution_profile.trace"));
    ASSERT_EQ(layers.size(), kNastyLayers.size()) << format;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      EXPECT_EQ(layers[i].first, json::utf8(kNastyLayers[i].name));
      EXPECT_DOUBLE_EQ(layers[i].second, kNastyLayers[i].ms * 2) << layers[i].first;
    }
    set_enabled(false);
    run(engine);
  }
}

// The names in an engine's layer information.
std::vector<std::string> described_in(const std::string& path) {
  std::vector<std::string> names;
  const json::Value information = parsed(path);
  for (const auto& layer : *information.find("Layers")->array()) {
    names.push_back(*(layer.string() != nullptr ? layer.string() : layer.find("Name")->string()));
  }
  return names;
}

TEST_F(Traces, TheLayerInformationHasTheProfilersNames) {
  const std::vector<std::vector<const char*>> sets{
      {"plain", "conv", "conv_1", "conv_"},
      {"quote \" inside", "a \"quoted\" word", "\"", "\"\"", "ends with \""},
      {"back\\slash", "\\n", "ends with \\", "\\\"", "C:\\new\\table"},
      {"new\nline", "tab\there", "bell\x07", "n\xC3\xA4me \xE2\x82\xAC", "bytes \xFF\xFE"},
      {"a\", \"b", "c"},
      {"a\", \"b", "a", "b"},
      {"a", "b", "a\", \"b"},
      {"a", "a\"", "\"a", "a\", \"a\", \"a"},
      {"]}", "\"]}", "{\"Name\": \"nested\"}", "x\"}, {\"Name\": \"y"},
      {"Name", "Name\": \"x", "Outputs", "Layers\": [\"z"}};
  for (const bool detailed : {false, true}) {
    for (const auto& set : sets) {
      FakeOptions options;
      options.detailed_information = detailed;
      options.layers.clear();
      std::vector<std::string> names;
      for (const char* name : set) {
        options.layers.push_back({name, 0.5F});
        names.push_back(json::utf8(name));
      }
      const auto engine = make_engine(options);
      set_enabled(true);
      run(engine);
      std::vector<std::string> timed;
      for (const auto& [name, ms] : layers_in(folder("engine_engine_execution_profile.trace"))) {
        timed.push_back(name);
      }
      EXPECT_EQ(timed, names);
      EXPECT_EQ(described_in(folder("engine_layer_information.json")), names) << detailed;
      set_enabled(false);
      run(engine);
    }
  }
}

LayerReport report_of(const std::vector<std::string>& names) {
  LayerReport report;
  for (const std::string& name : names) {
    report.layers.push_back({name, 1.0, 1});
  }
  return report;
}

TEST_F(Traces, LayerInformationThatIsRightStaysAsItIs) {
  // Escaped as it should be, and without a layer that only the profiler knows.
  const std::string text = R"({"Layers": [ "a \" b", {"Name": "c\\n", "Metadata": "\u001e" } ],  "Bindings": []}
)";
  EXPECT_EQ(layer_information(text, report_of({"a \" b", "c\\n"})), text);
  EXPECT_EQ(layer_information(text, report_of({"a \" b", "c\\n", "reformat"})), text);
  EXPECT_EQ(layer_information(text, report_of({})), text);
}

TEST_F(Traces, LayerInformationThatIsJsonByAccidentIsRepaired) {
  const auto information =
      json::parse(layer_information(R"({"Layers": ["a", "b", "c\n"]})", report_of({"a\", \"b", "c\\n"})));
  ASSERT_TRUE(information);
  const json::Array& layers = *information->find("Layers")->array();
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(*layers[0].string(), "a\", \"b");
  EXPECT_EQ(*layers[1].string(), "c\\n");
}

TEST_F(Traces, LayerInformationThatCannotBeRepairedStillHasTheNames) {
  for (const std::string text : {"", "half a {", R"({"Layers": ["a", "b)"}) {
    const auto information = json::parse(layer_information(text, report_of({"a", "b \" c"})));
    ASSERT_TRUE(information) << text;
    const json::Array& layers = *information->find("Layers")->array();
    ASSERT_EQ(layers.size(), 2U);
    EXPECT_EQ(*layers[0].string(), "a");
    EXPECT_EQ(*layers[1].string(), "b \" c");
    EXPECT_EQ(*information->find("unreadable")->string(), text);
  }
}

TEST_F(Traces, EveryFileIsJsonWithoutLayers) {
  for (const char* format : {"perfetto", "trex"}) {
    const auto engine = make_engine({.layers = {}});
    set_format(format);
    set_enabled(true);
    run(engine);
    EXPECT_TRUE(layers_in(folder("engine_engine_execution_profile.trace")).empty());
    set_enabled(false);
    run(engine);
  }
}

TEST_F(Traces, PerfettoIsTheTraceEventFormat) {
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  for (const char* file : {"engine_engine_execution_profile.trace", "engine_output_profile.trace"}) {
    const json::Value trace = parsed(folder(file));
    std::vector<std::string> names;
    for (const auto& event : *trace.array()) {
      EXPECT_EQ(number(event, "pid"), ::getpid());
      EXPECT_GE(number(event, "tid"), 1);
      EXPECT_NE(event.find("args"), nullptr);
      if (*event.find("ph")->string() == "M") {
        names.push_back(*event.find("name")->string());
      } else {
        EXPECT_EQ(*event.find("ph")->string(), "X");
        EXPECT_GE(number(event, "ts"), 0);
        EXPECT_GE(number(event, "dur"), 0);
      }
    }
    EXPECT_EQ(names, (std::vector<std::string>{"process_name", "thread_name"}));
    EXPECT_GT(trace.array()->size(), 2U) << file;
  }
}

TEST_F(Traces, TrexHasTimeAverageAndPercentage) {
  const auto engine = make_engine();
  set_format("trex");
  set_enabled(true);
  run(engine);
  run(engine);
  const json::Value trace = parsed(folder("engine_engine_execution_profile.trace"));
  ASSERT_EQ(trace.array()->size(), 2U);
  const auto& conv = trace.array()->at(0);
  EXPECT_DOUBLE_EQ(number(conv, "timeMs"), 1.0);
  EXPECT_DOUBLE_EQ(number(conv, "averageMs"), 0.5);
  EXPECT_NEAR(number(conv, "percentage"), 66.6667, 1e-3);
}

TEST_F(Traces, ALayerThatTookNoTimeIsNoNan) {
  const auto engine = make_engine({.layers = {{"shuffle", 0.0F}}});
  set_format("trex");
  set_enabled(true);
  run(engine);
  EXPECT_EQ(layers_in(folder("engine_engine_execution_profile.trace")).at(0).second, 0);
}

TEST_F(Traces, OurOwnFilesAreLeftAsTheyAre) {
  const TraceOwner owner{folder(), "engine", 1};
  for (const bool is_trex : {false, true}) {
    const LayerReport report{is_trex, {{"a \"b\"", 1.5, 0}}};
    replace_file(folder("engine_engine_execution_profile.trace"), write_layer_report(report, owner));
    const std::string before = read(folder("engine_engine_execution_profile.trace"));
    rewrite_traces(owner);
    EXPECT_EQ(read(folder("engine_engine_execution_profile.trace")), before);
  }
}

TEST_F(Traces, EnginesOfOneNameGetAFolderEachButTheFirst) {
  const auto first = make_engine();
  auto second = make_engine();
  const auto third = make_engine();
  const auto other = make_engine({.name = "other"});
  set_enabled(true);
  for (const auto& engine : {first, second, third, other}) {
    run(engine);
  }
  const std::string pid = std::to_string(::getpid());
  EXPECT_EQ(first->get_profile_path_prefix(), folder());
  EXPECT_EQ(second->get_profile_path_prefix(), folder("engine." + pid));
  EXPECT_EQ(third->get_profile_path_prefix(), folder("engine." + pid + ".1"));
  EXPECT_EQ(other->get_profile_path_prefix(), folder());
  EXPECT_TRUE(std::filesystem::exists(folder("engine." + pid + "/engine_engine_execution_profile.trace")));

  second.reset();  // its place is free again
  const auto fourth = make_engine();
  run(fourth);
  EXPECT_EQ(fourth->get_profile_path_prefix(), folder("engine." + pid));

  const json::Value index = parsed(folder("engines." + pid + ".json"));
  EXPECT_EQ(number(index, "pid"), ::getpid());
  const auto& engines = *index.find("engines")->array();
  ASSERT_EQ(engines.size(), 4U);
  std::vector<std::string> places;
  for (const auto& engine : engines) {
    places.push_back(*engine.find("name")->string() + " in " + *engine.find("folder")->string());
    EXPECT_EQ(*engine.find("format")->string(), "perfetto");
    EXPECT_EQ(number(engine, "device"), 0);
    EXPECT_TRUE(engine.find("object_id")->string()->starts_with("0x"));
  }
  std::ranges::sort(places);
  EXPECT_EQ(places, (std::vector<std::string>{"engine in .", "engine in engine." + pid,
                                              "engine in engine." + pid + ".1", "other in ."}));
}

TEST_F(Traces, AnEngineKeepsItsPlaceOverToggles) {
  const auto first = make_engine();
  const auto second = make_engine();
  for (int i = 0; i < 3; ++i) {
    set_enabled(true);
    run(second);
    run(first);
    EXPECT_EQ(second->get_profile_path_prefix(), folder());
    set_format(i % 2 == 0 ? "trex" : "perfetto");
    run(second);
    EXPECT_EQ(second->get_profile_path_prefix(), folder());
    set_enabled(false);
    run(first);
    run(second);
  }
}

TEST_F(Traces, AFolderOfAnEarlierProcessIsLeftAlone) {
  const std::string pid = std::to_string(::getpid());
  std::filesystem::create_directory(folder("engine." + pid));
  const auto first = make_engine();
  const auto second = make_engine();
  set_enabled(true);
  run(first);
  run(second);
  EXPECT_EQ(second->get_profile_path_prefix(), folder("engine." + pid + ".1"));
}

TEST_F(Traces, RanksOfALaunchGetAFolderEach) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "8", 1);
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  const std::string name = "engine." + std::to_string(::getpid()) + ".r3";
  EXPECT_EQ(engine->get_profile_path_prefix(), folder(name));
  const json::Value index = parsed(folder("engines." + std::to_string(::getpid()) + ".json"));
  EXPECT_EQ(number(index.find("engines")->array()->at(0), "rank"), 3);
}

TEST_F(Traces, ALaunchOfOneProcessHasNoRanks) {
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  EXPECT_EQ(engine->get_profile_path_prefix(), folder());
}

TEST_F(Traces, AnEnginesProcessGroupGivesTheRank) {
  const auto engine = make_engine();
  engine->world_size = 2;
  engine->rank = 1;
  set_enabled(true);
  run(engine);
  EXPECT_EQ(engine->get_profile_path_prefix(), folder("engine." + std::to_string(::getpid()) + ".r1"));
}

TEST_F(Traces, AnotherProcessGetsAFolderWhileTheFirstLives) {
  TraceLayout layout;
  auto claim = layout.claim(folder(), "engine", std::nullopt);
  EXPECT_EQ(claim->folder(), folder());
  const auto in_child = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto other = layout.claim(folder(), "engine", std::nullopt);
      const bool other_name = layout.claim(folder(), "other", std::nullopt)->folder() == folder();
      // NOLINTNEXTLINE(concurrency-mt-unsafe)
      ::_exit((other->folder() == folder() ? 1 : 0) + (other_name ? 0 : 2));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(in_child(), 0);
  EXPECT_EQ(in_child(), 0);  // the child's end has not freed the parent's place
  claim.reset();
  EXPECT_EQ(in_child(), 1);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
