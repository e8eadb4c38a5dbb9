// A process in which Torch-TensorRT's library is not loaded: every entrance is an error, none an abort.
#include <gtest/gtest.h>

#include <string>

#include "torch_tensorrt/profiles.h"

namespace torch_tensorrt::profiles {
namespace {

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(BeforeTorchTensorRT, ActivationIsAnErrorThatSaysWhatToLoad) {
  EXPECT_FALSE(is_active());
  const std::string message = message_of([] { activate(); });
  EXPECT_NE(message.find("libtorchtrt"), std::string::npos) << message;
  EXPECT_FALSE(is_active());
  EXPECT_EQ(message_of([] { deactivate(); }), "");
}

TEST(BeforeTorchTensorRT, EverythingElseSaysToActivate) {
  for (const std::string& message : {
           message_of([] { set_profile_execution(true); }),
           message_of([] { set_profile_format(TraceFormat::kTrex); }),
           message_of([] { set_profile_path_prefix("/tmp"); }),
           message_of([] { profiling_config(); }),
           message_of([] { engine_timing(); }),
           message_of([] { const ProfilingGuard guard; }),
       }) {
    EXPECT_NE(message.find("activate()"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace torch_tensorrt::profiles
