// use FOLDER STEPS LABEL OTHER: steps through odtc.hpp; prints the losses, and what goes wrong with other types, other
// weights and another folder.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "odtc.hpp"

static odtc::Options options_of(const std::string &folder) {
  return {folder + "/program.bin", folder + "/parameters.safetensors", folder + "/step.so", 1};
}

// What a tensor says of a type that its elements do not have; nothing where it takes it.
template <typename T>
static void refused(const odtc::Tensor &tensor) {
  try {
    static_cast<void>(tensor.end<T>());
  } catch (const odtc::Error &error) {
    std::printf("%d %s\n", error.code, error.what());
  }
}

// Floats of 16 bits, which C++17 has no type for.
struct Half {
  std::uint16_t bits;
};
template <>
struct odtc::Element<Half> {
  static constexpr int code = 2, bits = 16;
};

int main(int, char **words) {
  const std::string folder = words[1];
  odtc::Trainer opened(options_of(folder));
  odtc::Trainer trainer(std::move(opened));
  odtc::Tensor x = trainer.tensor("x");
  float value = -1;
  for (float *each = x.begin<float>(); each != x.end<float>(); ++each) *each = value += 0.03125f;
  for (int n = std::atoi(words[2]); n; --n) std::printf("%a\n", trainer.step(0.05f));
  trainer.save(folder + "/cpp");
  trainer.load(folder + "/cpp");
  const std::vector<unsigned char> checkpoint = trainer.save();
  trainer.step(0.05f);
  trainer.load(checkpoint);
  if (trainer.save() != checkpoint) return 7;
  odtc::Tensor y = trainer.evaluate();
  std::printf("%lld %s %a\n", static_cast<long long>(trainer.steps()), y.about().name,
              static_cast<double>(*y.begin<float>()));
  odtc::Tensor some = trainer.evaluate_samples(3);
  std::printf("%u %lld %a\n", trainer.samples_of_step(), static_cast<long long>(some.about().shape[0]),
              static_cast<double>(some.end<float>()[-1]));
  odtc::Tensor label = trainer.tensor(words[3]);
  refused<int32_t>(label);
  refused<const int32_t>(label);
  refused<int64_t>(label);
  refused<uint32_t>(label);
  refused<float>(label);
  refused<bool>(label);
  refused<Half>(x);
  odtc::Options others = options_of(folder);
  others.weights = words[4];
  try {
    odtc::Trainer other(others);
  } catch (const odtc::Error &error) {
    std::printf("%d\n", error.code);
  }
  others.check_weights = false;
  odtc::Trainer unchecked(others);
  try {
    odtc::Trainer other(options_of("nowhere"));
  } catch (const odtc::Error &error) {
    std::printf("%d %s\n", error.code, error.what());
  }
}
