#include "frontend/archive/torch_archive.h"

#include "frontend/archive/source_origins.h"
#include "tests/support/files.h"
#include "tests/support/pickle_text.h"

namespace tscompile {
namespace {

using test::pickleText;
using test::shown;

std::string archiveFile(std::string_view name) { return TSCOMPILE_TESTS_DIR "/data/archives/" + std::string(name); }

std::shared_ptr<const TorchArchive> open(std::string_view name) {
  Diagnostics d;
  auto archive = TorchArchive::open(archiveFile(name), d);
  EXPECT_TRUE(archive) << shown(d);
  return archive ? *archive : nullptr;
}

TEST(TorchArchive, HasSourcesAndValues) {
  for (const char* name : {"script_1.pt", "script_2.pt"}) {
    auto a = open(name);
    ASSERT_TRUE(a);
    EXPECT_EQ(a->version(), 3);
    EXPECT_FALSE(a->isBigEndian());
    EXPECT_FALSE(a->isMobile());
    EXPECT_EQ(a->codeFiles(), std::vector<std::string>{"code/__torch__.py"});
    Diagnostics d;
    Result<SourcePtr> code = a->code("code/__torch__.py", d);
    ASSERT_TRUE(code) << shown(d);
    EXPECT_TRUE((*code)->path().ends_with(".pt:code/__torch__.py"));
    EXPECT_NE((*code)->text().find("class Whole(Module):"), std::string_view::npos);
    EXPECT_EQ(a->data().object().name, "__torch__.Whole");
    auto attribute = [&](std::string_view key) {
      PickleRef v = a->data().find(key);
      return v ? pickleText(*v) : "nothing";
    };
    EXPECT_EQ(attribute("names"), "Dict[str, int]:{'a': 1, 'b': -300}");
    EXPECT_EQ(attribute("maybe"), "None");
    EXPECT_EQ(attribute("pair"), "(1099511627776, 'x\xc3\xa9')");
    EXPECT_EQ(attribute("list"), "List[float]:[0.5, -1]");
    EXPECT_EQ(attribute("tensors"), "List[Tensor]:[float32[1] <1>, float32[0] <>]");
    EXPECT_EQ(attribute("color"), "__torch__.Color7");
    EXPECT_EQ(attribute("device"), "cpu");
    EXPECT_EQ(attribute("turn"), "1+-2j");
    EXPECT_EQ(attribute("rows"), "float32[3, 2] <0 3 1 4 2 5>");
    EXPECT_EQ(attribute("flags"), "bool[2] <1 0>");
    EXPECT_EQ(attribute("small"), "bfloat16[2] <1.5 -2>");
    EXPECT_EQ(attribute("waves"), "complex64[1] <1+2j>");
    EXPECT_EQ(attribute("none"), "nothing");
  }
}

TEST(TorchArchive, MapsTensorsAndKeepsWhatTheyShare) {
  Tensor first, second;
  {
    auto a = open("script_2.pt");
    ASSERT_TRUE(a);
    first = a->data().find("first")->find("weight")->tensor().tensor;
    second = a->data().find("second")->find("weight")->tensor().tensor;
  }
  EXPECT_EQ(first.raw(), second.raw());
  EXPECT_TRUE(first.storage()->readOnly());
  EXPECT_EQ(first.real(3), 3.0);
}

TEST(TorchArchive, HasConstantsAndDebugInformation) {
  for (const char* name : {"script_1.pt", "script_2.pt"}) {
    auto a = open(name);
    ASSERT_TRUE(a);
    Diagnostics d;
    auto info = a->debugInfo("code/__torch__.py", d);
    ASSERT_TRUE(info && *info) << shown(d);
    EXPECT_TRUE((*info)->root().is(PickleValue::Kind::Tuple));
    auto none = a->debugInfo("code/none.py", d);
    EXPECT_TRUE(none && !*none);
    EXPECT_FALSE(a->code("code/none.py", d));
    EXPECT_TRUE(shown(d).ends_with("error: the archive has no source 'code/none.py'\n"));
  }
  EXPECT_EQ(TorchArchive::codeFileOf("__torch__.a.b.C"), "code/__torch__/a/b.py");
  EXPECT_EQ(TorchArchive::codeFileOf("__torch__.C"), "code/__torch__.py");
}

// As torch.jit.load(file).graph shows them.
TEST(TorchArchive, TellsWhereCodeComesFrom) {
  Diagnostics d;
  auto opened = TorchArchive::open(TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/model.pt", d);
  ASSERT_TRUE(opened) << shown(d);
  const TorchArchive* a = opened->get();
  auto info = a->debugInfo("code/__torch__/models.py", d);
  ASSERT_TRUE(info && *info) << shown(d);
  SourceOrigins origins((*info)->root());
  CodeLocation flatten = origins.of(881);
  EXPECT_TRUE(flatten.file.text().ends_with("/models.py"));
  EXPECT_EQ(flatten.line, 16u);
  EXPECT_EQ(flatten.column, 25u);
  EXPECT_FALSE(origins.of(0).present());
  EXPECT_FALSE(SourceOrigins(a->data()).of(881).present()) << "a pickle of something else";
}

TEST(TorchArchive, KeepsQuantization) {
  for (const char* name : {"quantized_1.pt", "quantized_2.pt"}) {
    auto a = open(name);
    ASSERT_TRUE(a);
    const PickleTensor& t = a->data().find("tensor")->tensor();
    EXPECT_EQ(t.dtype, DType::QUInt8);
    EXPECT_EQ(t.quantization->scale, 0.5);
    EXPECT_EQ(t.quantization->zeroPoint, 2);
    EXPECT_EQ(pickleText(*a->data().find("tensor")), "quint8[2, 3] <0 2 4 6 8 10>");
    const Quantization& q = *a->data().find("channel")->tensor().quantization;
    EXPECT_EQ(q.scheme, Quantization::Scheme::PerChannelAffine);
    EXPECT_EQ(q.axis, 0);
    EXPECT_EQ(q.scales.real(0), 0.5);
    EXPECT_EQ(q.zeroPoints.integer(1), 1);
    EXPECT_EQ(pickleText(*a->data().find("channel")), "qint8[2, 3] <-2 0 2 3 4 5>");
  }
}

TEST(TorchArchive, RefusesOtherFilesByName) {
  test::TemporaryFolder folder;
  const std::pair<std::string, const char*> rows[] = {
      {archiveFile("bytecode.ptl"),
       "expected a TorchScript archive, found a PyTorch mobile archive of bytecode without sources"},
      {archiveFile("checkpoint_2.pth"),
       "expected a TorchScript archive, found a PyTorch checkpoint\nnote: a checkpoint holds weights, and no model"},
      {archiveFile("legacy_1.pth"),
       "expected a TorchScript archive, found a PyTorch checkpoint of the format before 1.6"},
      {folder.write("m.ff", std::string("\x10\0\0\0PTMF\0\0\0\0", 12)),
       "expected a TorchScript archive, found a PyTorch mobile module in a flatbuffer"},
      {test::dataFile("stored.npz"), "expected a TorchScript archive, found an .npz archive"},
  };
  for (const auto& [path, message] : rows) {
    Diagnostics d;
    EXPECT_FALSE(TorchArchive::open(path, d));
    EXPECT_NE(shown(d).find(message), std::string::npos) << shown(d);
  }
}

TEST(TorchArchive, EveryPrefixIsRejected) {
  std::string bytes = test::readText(archiveFile("traced_1.pt"));
  for (size_t n = 0; n < bytes.size(); n += 7) {
    Diagnostics d;
    std::string prefix = bytes.substr(0, n);
    EXPECT_FALSE(TorchArchive::read({prefix, "f"}, nullptr, d)) << n;
    EXPECT_TRUE(d.hasErrors());
  }
}

}  // namespace
}  // namespace tscompile
