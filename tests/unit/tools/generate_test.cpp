// What `generate` says of log-probabilities, beams, several requests and interrupts: numbers differ by the processor,
// so golden files cannot have them.
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <sys/stat.h>
#include <sys/wait.h>

namespace tscompile::test {
namespace {

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const std::string model = TSCOMPILE_SOURCE_DIR "/samples/language/byte_gpt/model";
    CliResult r = runCli({"build", model + ".ir", "--weights", model + ".weights", "--set", "max_seq_len=200", "--set",
                          "max_beam_width=3", "-o", folder_ / "built", "-q"});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  CliResult generate(std::vector<std::string> options) {
    options.insert(options.begin(), {"generate", folder_ / "built", "-q"});
    return runCli(options);
  }
  Json json(std::vector<std::string> options, int code = 0) {
    options.insert(options.end(), {"--format", "json"});
    CliResult r = generate(options);
    EXPECT_EQ(r.code, code) << r.err;
    return parseJson(r.out);
  }

  TemporaryFolder folder_;
};

TEST_F(Generate, TellsLogProbabilities) {
  Json one = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "4", "--log-probs"})["results"].items.at(0);
  ASSERT_EQ(one["log_probs"].items.size(), 4u);
  for (const Json& p : one["log_probs"].items) EXPECT_TRUE(p.number < 0 && p.number > -6) << p.number;
  Json none = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "4"})["results"].items.at(0);
  EXPECT_TRUE(none["log_probs"].items.empty());
}

TEST_F(Generate, TellsAllBeamsWithTheirScores) {
  Json r = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "5", "--beam-width", "3", "--length-penalty", "2"});
  const std::vector<Json>& beams = r["results"].items.at(0)["beams"].items;
  ASSERT_EQ(beams.size(), 3u);
  for (size_t i = 0; i < beams.size(); ++i) {
    ASSERT_EQ(beams[i]["tokens"].items.size(), 5u);
    EXPECT_NEAR(beams[i]["score"].number, beams[i]["log_prob"].number / 25, 1e-9);
    if (i > 0) {
      EXPECT_LE(beams[i]["score"].number, beams[i - 1]["score"].number);
    }
  }
}

TEST_F(Generate, FilesOfRequestsHaveSettingsOfTheirOwn) {
  auto tokens = [](const Json& result) {
    std::vector<double> out;
    for (const Json& t : result["tokens"].items) out.push_back(t.number);
    return out;
  };
  std::string lines;
  std::vector<std::vector<std::string>> alone;
  for (int i = 0; i < 30; ++i) {
    std::string ids = std::to_string(i + 1) + "," + std::to_string(7 * i % 50);
    lines += R"({"prompt_ids": [)" + ids + R"(], "max_new_tokens": )" + std::to_string(3 + i % 5) +
             R"(, "temperature": 0.9, "top_k": 12, "seed": )" + std::to_string(i) + "}\n";
    alone.push_back({"--prompt-ids", ids, "--max-new-tokens", std::to_string(3 + i % 5), "--temperature", "0.9",
                     "--top-k", "12", "--seed", std::to_string(i)});
    if (i % 10 == 4) lines += "{\"prompt_ids\": [999]}\n\n";
  }
  std::vector<Json> together = json({"--prompts", folder_.write("requests.jsonl", lines)}, 3)["results"].items;
  ASSERT_EQ(together.size(), 33u);
  size_t next = 0;
  for (const Json& result : together) {
    if (result["finished"].text == "failed") {
      EXPECT_EQ(result["error"].text, "the prompt has 999, which is no token: the vocabulary has 256");
      continue;
    }
    EXPECT_EQ(tokens(result), tokens(json(alone[next++])["results"].items.at(0)));
  }
  EXPECT_EQ(next, 30u);
}

TEST_F(Generate, StreamsLinesOfAllPrompts) {
  CliResult r = generate({"--prompt", "a", "--prompt", "b", "--max-new-tokens", "3", "--stream"});
  ASSERT_EQ(r.code, 0) << r.err;
  std::string texts[2], whole[2];
  size_t lines = 0;
  for (size_t begin = 0; begin < r.out.size(); ++lines) {
    size_t end = r.out.find('\n', begin);
    Json line = parseJson(r.out.substr(begin, end - begin));
    auto prompt = static_cast<size_t>(line["prompt"].number);
    (line["finished"].text.empty() ? texts : whole)[prompt] += line["text"].text;
    begin = end + 1;
  }
  EXPECT_EQ(lines, 8u);
  // What is held back as the beginning of a character comes with the whole text.
  for (int i : {0, 1}) EXPECT_EQ(whole[i].substr(0, texts[i].size()), texts[i]);
}

TEST_F(Generate, EndTokensComeFromTheModelsFiles) {
  Json all = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "6"})["results"].items.at(0);
  std::string third = std::to_string(static_cast<int>(all["tokens"].items.at(2).number));
  writeText(folder_ / "built/generation_config.json", R"({"eos_token_id": [255, )" + third + "]}");
  Json ended = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "6"})["results"].items.at(0);
  EXPECT_EQ(ended["finished"].text, "end");
  EXPECT_LE(ended["tokens"].items.size(), 3u);
  Json other = json({"--prompt-ids", "1,2,3", "--max-new-tokens", "6", "--end-id", "255"})["results"].items.at(0);
  EXPECT_EQ(other["tokens"].items.size(), 6u) << "those of the command line are instead of them";
}

// The tool as a process, which gets a signal.
TEST_F(Generate, InterruptsPrintWhatIsFinished) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "{\"prompt_ids\": [2], \"max_new_tokens\": 190}\n";
  const std::string more = folder_.write("many.jsonl", "{\"prompt_ids\": [1], \"max_new_tokens\": 1}\n" + many);
  const std::string err = folder_ / "err";
  // The shell tells its number and becomes the tool, which is interrupted once the first text has its only token.
  FILE* out = popen(("echo $$; exec " + std::string(TSCOMPILE_TOOL) + " generate " + (folder_ / "built") +
                     " --stream --prompts " + more + " 2>" + err)
                        .c_str(),
                    "r");
  ASSERT_TRUE(out);
  int process = 0;
  ASSERT_EQ(std::fscanf(out, "%d ", &process), 1);
  std::string printed;
  bool isInterrupted = false;
  for (char line[4096]; std::fgets(line, sizeof line, out); printed += line)
    if (!isInterrupted && std::string(line).find("\"prompt\": 0,") != std::string::npos)
      isInterrupted = kill(process, SIGINT) == 0;
  EXPECT_TRUE(isInterrupted);
  EXPECT_NE(printed.find("\"prompt\": 0, \"finished\": \"length\""), std::string::npos) << printed;
  const int status = pclose(out);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT) << readText(err);
  EXPECT_NE(readText(err).find("interrupted: "), std::string::npos) << readText(err);
  EXPECT_NE(readText(err).find(" of 3001 texts are not finished"), std::string::npos) << readText(err);
}

TEST_F(Generate, TextsThatAreFinishedInTimeArePrinted) {
  std::string many = "{\"prompt_ids\": [1], \"max_new_tokens\": 1}\n";
  for (int i = 0; i < 20000; ++i) many += "{\"prompt_ids\": [2], \"max_new_tokens\": 190}\n";
  const std::string prompts = folder_.write("many.jsonl", many), err = folder_ / "err", out = folder_ / "out";
  const int status = std::system((std::string(TSCOMPILE_TOOL) + " generate " + (folder_ / "built") + " --prompts " +
                                  prompts + " --limit-time 2s --format json >" + out + " 2>" + err)
                                     .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 6) << readText(err);
  EXPECT_NE(readText(out).find("\"prompt\": 0, \"finished\": \"length\""), std::string::npos);
  EXPECT_NE(readText(err).find(" of 20001 texts are not finished"), std::string::npos) << readText(err);
}

// A program that talks with `generate --stream --prompts -`.
class Conversation {
 public:
  Conversation(const TemporaryFolder& folder, const std::string& options) : err_(folder / "err") {
    const std::string answers = folder / "answers";
    EXPECT_EQ(mkfifo(answers.c_str(), 0600), 0);
    const std::string command = std::string(TSCOMPILE_TOOL) + " generate " + (folder / "built") + " -q " + options +
                                " --stream --prompts - >" + answers + " 2>" + err_;
    in_ = popen(command.c_str(), "w");
    out_ = in_ ? std::fopen(answers.c_str(), "r") : nullptr;
  }
  ~Conversation() {
    if (out_) std::fclose(out_);
  }
  bool isOpen() const { return out_ != nullptr; }

  void ask(const std::string& lines) { std::fputs(lines.c_str(), in_), std::fflush(in_); }
  // The next line that ends a request; nothing after the last one.
  Json answer() {
    char line[4096];
    while (std::fgets(line, sizeof line, out_))
      if (Json read = parseJson(line); !read["finished"].text.empty()) return read;
    return {};
  }
  // Its exit code, once there is nothing to ask any more: answers that were not read have to fit into the pipe.
  int end() { return WEXITSTATUS(pclose(in_)); }
  std::string errors() const { return readText(err_); }

 private:
  const std::string err_;
  FILE *in_ = nullptr, *out_ = nullptr;
};

// A program that asks again once it has read an answer, and asks for something wrong in between.
TEST_F(Generate, AnswersWhileRequestsCome) {
  Conversation program(folder_, "--max-new-tokens 2");
  ASSERT_TRUE(program.isOpen());
  auto first = [](const Json& result) { return result["tokens"].items.at(0).number; };
  const double expected = first(json({"--prompt-ids", "1,2,3"})["results"].items.at(0));
  program.ask("{\"prompt_ids\": [1, 2, 3]}\n{\"prompt_");  // half of a line waits for the rest
  Json one = program.answer();
  EXPECT_EQ(one["prompt"].number, 0);
  EXPECT_EQ(first(one), expected);
  program.ask("ids\": [9]}\n");
  EXPECT_EQ(program.answer()["prompt"].number, 1);
  program.ask("\n{\"prompt_ids\": [999]}\n{\"prompt_idz\": [9]}\n");
  EXPECT_EQ(program.answer()["finished"].text, "failed");
  EXPECT_EQ(program.answer()["finished"].text, "failed");
  program.ask("{\"prompt_ids\": [1, 2, 3]}");  // the last line needs no end
  EXPECT_EQ(program.end(), 3) << "requests were wrong";
  Json last = program.answer();
  EXPECT_EQ(last["prompt"].number, 4);
  EXPECT_EQ(first(last), expected);
  EXPECT_TRUE(program.answer()["finished"].text.empty());
  EXPECT_NE(program.errors().find("<stdin>:5:"), std::string::npos) << program.errors();
}

// A program that turns away from what it has asked for.
TEST_F(Generate, RequestsOfAStreamAreCancelledByTheirId) {
  Conversation program(folder_, "");
  ASSERT_TRUE(program.isOpen());
  std::vector<Json> ended;
  // Nine are more than run at a time: the last one waits. Each would make all tokens that fit.
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += fmt::format("{{\"id\": {}, \"prompt_ids\": [2], \"max_new_tokens\": 190}}\n", i);
  program.ask(nine + "{\"cancel\": \"8\"}\n{\"cancel\": 3}\n{\"cancel\": \"of nobody\"}\n");
  for (int i = 0; i < 9; ++i) ended.push_back(program.answer());
  ASSERT_EQ(ended.size(), 9u);
  for (const Json& e : ended) {
    const bool isCancelled = e["id"].text == "8" || e["id"].text == "3";
    EXPECT_EQ(e["finished"].text, isCancelled ? "cancelled" : "length") << e["id"].text;
    EXPECT_EQ(e["tokens"].size() < 190, isCancelled) << e["id"].text;
  }
  program.ask("{\"cancel\": [1]}\n{\"cancel\": \"1\", \"seed\": 1}\n{\"prompt_ids\": [1], \"max_new_tokens\": 1}\n");
  EXPECT_EQ(program.end(), 3) << "two lines were wrong";
  for (int i = 0; i < 3; ++i) ended.push_back(program.answer());
  ASSERT_EQ(ended.size(), 12u);
  for (size_t i : {9u, 10u})
    EXPECT_EQ(ended[i]["error"].text, "cancel takes the id of a request, alone in a line of a stream");
  EXPECT_EQ(ended[11]["prompt"].number, 11) << "lines that cancel are not counted";
  EXPECT_NE(program.errors().find("<stdin>:13:"), std::string::npos) << program.errors();
}

}  // namespace
}  // namespace tscompile::test
