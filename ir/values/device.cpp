#include "ir/values/device.h"

#include "ir/support/number_of_text.h"

namespace tscompile {
namespace {
constexpr std::string_view kDeviceNames[] = {
    "cpu",   "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",  "fpga", "ort",  "xla",  "vulkan",
    "metal", "xpu",  "mps",    "meta",   "hpu",    "ve",    "lazy", "ipu",  "mtia", "maia", "privateuseone"};
}

std::string deviceText(Device device) {
  std::string out(kDeviceNames[static_cast<size_t>(device.kind)]);
  if (device.index >= 0) out += ":" + std::to_string(device.index);
  return out;
}

std::optional<Device> deviceFromText(std::string_view text) {
  std::string_view name = text.substr(0, text.find(':'));
  Device device;
  bool known = false;
  for (size_t i = 0; i < std::size(kDeviceNames); ++i) {
    if (kDeviceNames[i] != name) continue;
    device.kind = static_cast<DeviceKind>(i);
    known = true;
  }
  if (!known) return std::nullopt;
  if (name.size() < text.size()) {
    const auto index = numberOfText<decltype(device.index)>(text.substr(name.size() + 1));
    if (!index || *index < 0) return std::nullopt;
    device.index = *index;
  }
  return device;
}

}  // namespace tscompile
