#include "frontend/files/weights.h"

#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::dataFile;
using test::shown;
using test::TemporaryFolder;

using Names = std::vector<std::string>;

TEST(Weights, TellOfNamesThatAModuleAroundHasMade) {
  Weights w;
  ASSERT_TRUE(w.add("module.head.weight", Tensor::zeros(DType::Float32, Dims{1})));
  EXPECT_EQ(w.adviceFor("head.weight"),
            "the weights have 'module.head.weight': without 'module.' in front their names are those of the model");
  EXPECT_EQ(w.adviceFor("head.bias"), "");
}

TEST(Weights, RememberWhatWasAskedFor) {
  Diagnostics d;
  Weights w;
  EXPECT_TRUE(w.empty());
  ASSERT_TRUE(w.addFile(dataFile("unaligned.safetensors"), d)) << shown(d);
  EXPECT_EQ(w.names(), (Names{"f32", "u8"}));
  EXPECT_EQ(w.find("none"), nullptr);
  EXPECT_TRUE(w.has("u8"));
  EXPECT_EQ(w.unused(), (Names{"f32", "u8"}));
  EXPECT_EQ(shown(*w.find("f32"), d), "float32 [2]: 1.5 -2");
  EXPECT_EQ(w.unused(), Names{"u8"});
  EXPECT_EQ(w.fileOf("f32"), dataFile("unaligned.safetensors"));
  EXPECT_EQ(w.fileOf("none"), "");
  EXPECT_TRUE(w.add("extra", Tensor::zeros(DType::Float32, Dims{1})));
  EXPECT_FALSE(w.add("extra", Tensor::zeros(DType::Float32, Dims{1})));
  EXPECT_EQ(w.fileOf("extra"), "");
}

TEST(Weights, AreReadOnlyAndNotCopied) {
  Diagnostics d;
  Tensor aligned, copied;
  {
    Weights w;
    ASSERT_TRUE(w.addFile(dataFile("small.safetensors"), d));
    for (const std::string& name : w.names()) EXPECT_TRUE(w.find(name)->storage()->readOnly()) << name;
    aligned = *w.find("f64");
    // Neighbours in the file are neighbours in memory: 16 bytes of f64, then i64.
    EXPECT_EQ(w.find("i64")->raw() - aligned.raw(), 16);
    EXPECT_EQ(aligned.storage()->bytes(), 16u);
    Weights v;
    ASSERT_TRUE(v.addFile(dataFile("unaligned.safetensors"), d));
    copied = *v.find("f32");
    EXPECT_TRUE(copied.storage()->readOnly());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(copied.raw()) % alignof(float), 0u);
  }
  // The mapping outlives the weights that made it.
  EXPECT_EQ(aligned.real(0), 0.1);
  EXPECT_EQ(copied.real(1), -2);
}

TEST(Weights, ANameInTwoFilesIsAnError) {
  TemporaryFolder folder;
  Diagnostics d;
  Tensor t = Tensor::zeros(DType::Float32, Dims{1});
  ASSERT_TRUE(writeSafetensors(folder / "a.safetensors", {{"x", t}, {"y", t}, {"z", t}}, d, {{"k", "1"}}));
  ASSERT_TRUE(writeSafetensors(folder / "b.safetensors", {{"w", t}, {"x", t}, {"z", t}}, d, {{"k", "2"}}));
  ASSERT_TRUE(writeSafetensors(folder / "c.safetensors", {{"w", t}}, d, {{"k", "2"}, {"l", "3"}}));
  Weights w;
  ASSERT_TRUE(w.addFile(folder / "a.safetensors", d));
  EXPECT_FALSE(w.addFile(folder / "b.safetensors", d));
  EXPECT_EQ(shown(d),
            "b.safetensors: error: tensor 'x' is also in a.safetensors\n"
            "note: 1 more of its names are taken, too\n");
  EXPECT_FALSE(w.has("w"));
  EXPECT_TRUE(w.addFile(folder / "c.safetensors", d));
  EXPECT_EQ(w.metadata(), (Metadata{{"k", "1"}, {"l", "3"}}));
}

TEST(Weights, AreMembersOfNpzFiles) {
  Diagnostics d;
  Weights w;
  ASSERT_TRUE(w.addFile(dataFile("compressed.npz"), d)) << shown(d);
  ASSERT_FALSE(w.names().empty());
  for (const std::string& name : w.names()) {
    Result<Tensor> alone = readNpz(dataFile("compressed.npz"), name, d);
    ASSERT_TRUE(alone.ok()) << shown(d);
    EXPECT_EQ(shown(*w.find(name), d), shown(*alone, d)) << name;
    EXPECT_TRUE(w.find(name)->storage()->readOnly()) << name;
    EXPECT_TRUE(w.find(name)->isContiguous()) << name;
  }
  Limits limits;
  limits.generatedBytes = 8;
  EXPECT_FALSE(Weights().addFile(dataFile("compressed.npz"), d, limits));
}

TEST(Weights, RefuseFilesOfOtherKinds) {
  TemporaryFolder folder;
  struct Row {
    std::string path;
    const char* message;
  };
  const Row rows[] = {
      {dataFile("float32.npy"), "error: expected a file of weights, found an .npy file\n"},
      {folder.write("a.weights", "GGUF"), "a.weights: error: expected a file of weights, found a GGUF model\n"},
      {folder.write("lfs", "version https://git-lfs.github.com/spec/v1\n"),
       "lfs: error: expected a file of weights, found a git-LFS pointer\n"
       "note: fetch the file that it stands for with 'git lfs pull'\n"},
      {folder.write("pickle.pt", "\x80\x02}"), "pickle.pt:@3: error: the pickle ends too early\n"},
      {folder.write("other.pt", "\x80\x02}."),
       "other.pt: error: expected a PyTorch checkpoint, found a Python pickle\n"
       "note: export_torchscript.py makes graph text and safetensors of PyTorch models\n"},
      {folder / "none", "none: error: cannot read: No such file or directory\n"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    Weights w;
    EXPECT_FALSE(w.addFile(r.path, d));
    EXPECT_TRUE(shown(d).ends_with(r.message)) << shown(d);
    EXPECT_TRUE(w.empty());
  }
}

// ---- recipes ----

TEST(WeightsRecipe, MakesItsTensors) {
  TemporaryFolder folder;
  Diagnostics d;
  Weights w;
  std::string text =
      "# LeNet's first layer\n\n"
      "conv.weight = 2x1x2:f32=[1 2;; 3 4]  # after\r\n"
      "  conv.bias=2:bf16:arange\n"
      "n = scalar:i64=3";
  ASSERT_TRUE(w.addFile(folder.write("r.weights", text), d)) << shown(d);
  EXPECT_EQ(w.names(), (Names{"conv.bias", "conv.weight", "n"}));
  EXPECT_EQ(shown(*w.find("conv.weight"), d), "float32 [2, 1, 2]: 1 2 3 4");
  EXPECT_EQ(shown(*w.find("conv.bias"), d), "bfloat16 [2]: 0 1");
  EXPECT_TRUE(w.find("n")->storage()->readOnly());
  // By its contents whatever its name, and by its name though it is empty.
  Weights other;
  EXPECT_TRUE(other.addFile(folder.write("r.txt", text), d));
  EXPECT_TRUE(other.addFile(folder.write("empty.weights", "# nothing\n"), d)) << shown(d);
}

TEST(WeightsRecipe, ReportsEveryLineThatIsWrong) {
  TemporaryFolder folder;
  Diagnostics d;
  Weights w;
  EXPECT_FALSE(w.addFile(folder.write("r.weights",
                                      "a = 1:f32:zeros\n"
                                      "a = 1:f32:zeros\n"
                                      "b 1:f32:zeros\n"
                                      "c = 3\n"
                                      "d = @file.npy\n"
                                      "e = 1:f32:zeros x\n"
                                      "= 1:f32:zeros\n"
                                      "f = 2:f32=[1\n"
                                      "2]\n"),
                         d));
  EXPECT_EQ(shown(d),
            "r.weights:2:1: error: tensor 'a' is defined again\n  a = 1:f32:zeros\n  ^\n"
            "r.weights:1:1: note: it was defined here\n  a = 1:f32:zeros\n  ^\n"
            "r.weights:3:3: error: expected '=', found '1'\n  b 1:f32:zeros\n    ^\n"
            "r.weights:4:5: error: expected a tensor such as 2x3:f32:zeros, found '3'\n  c = 3\n      ^\n"
            "r.weights:5:5: error: expected a tensor such as 2x3:f32:zeros, found '@'\n  d = @file.npy\n      ^\n"
            "r.weights:6:17: error: expected the end of the line, found 'x'\n  e = 1:f32:zeros x\n                  ^\n"
            "r.weights:7:1: error: expected the name of a tensor, found '='\n  = 1:f32:zeros\n  ^\n"
            "r.weights:8:13: error: expected a number, found the end\n  f = 2:f32=[1\n              ^\n"
            "r.weights:9:3: error: expected '=', found the end\n  2]\n    ^\n");
  EXPECT_TRUE(w.empty());
}

TEST(WeightsRecipe, KeepsItsLimits) {
  TemporaryFolder folder;
  std::string path = folder.write("r.weights", "aa = 10:f32:zeros\nb = 10:f32:zeros\n");
  auto fits = [&](Limits limits) {
    Diagnostics d;
    Weights w;
    bool good = w.addFile(path, d, limits);
    EXPECT_TRUE(good || d.firstErrorKind() == ErrorKind::Limit) << shown(d);
    return good;
  };
  EXPECT_TRUE(fits({.generatedBytes = 80}));
  EXPECT_FALSE(fits({.generatedBytes = 79}));
  EXPECT_TRUE(fits({.tensors = 2}));
  EXPECT_FALSE(fits({.tensors = 1}));
  EXPECT_TRUE(fits({.identifierBytes = 2}));
  EXPECT_FALSE(fits({.identifierBytes = 1}));
  EXPECT_TRUE(fits({.textBytes = 35}));
  EXPECT_FALSE(fits({.textBytes = 34}));
}

}  // namespace
}  // namespace tscompile
