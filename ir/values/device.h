// Devices as graph text names them. Everything runs on the CPU; other devices are carried for printing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

enum class DeviceKind : uint8_t {
  CPU,
  CUDA,
  MKLDNN,
  OpenGL,
  OpenCL,
  IDEEP,
  HIP,
  FPGA,
  ORT,
  XLA,
  Vulkan,
  Metal,
  XPU,
  MPS,
  Meta,
  HPU,
  VE,
  Lazy,
  IPU,
  MTIA,
  MAIA,
  PrivateUse1,
};

struct Device {
  DeviceKind kind = DeviceKind::CPU;
  int16_t index = -1;  // -1: none given
  friend bool operator==(Device, Device) = default;
};

// "cpu", "cuda:0"
std::string deviceText(Device device);
std::optional<Device> deviceFromText(std::string_view text);

}  // namespace tscompile
