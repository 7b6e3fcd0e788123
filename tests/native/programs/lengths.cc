// lengths FOLDER LENGTH...: a step at each length, by odtc.hpp; prints the elements of the inputs, and the losses.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "odtc.hpp"

int main(int count, char **words) {
  const std::string folder = words[1];
  odtc::Trainer trainer({folder + "/program.bin", folder + "/parameters.safetensors", folder + "/step.so", 1});
  for (size_t n = 0; uint64_t length = trainer.length_at(n); ++n)
    std::printf("%llu\n", static_cast<unsigned long long>(length));
  for (int n = 2; n < count; ++n) {
    trainer.set_length(std::strtoull(words[n], nullptr, 10));
    odtc::Tensor ids = trainer.tensor("input_ids"), labels = trainer.tensor("label");
    for (int64_t *each = ids.begin<int64_t>(); each != ids.end<int64_t>(); ++each) *each = n;
    for (int32_t *each = labels.begin<int32_t>(); each != labels.end<int32_t>(); ++each) *each = n + 1;
    std::printf("%td %a\n", ids.end<int64_t>() - ids.begin<int64_t>(), trainer.step(0.1f));
  }
  try {
    trainer.set_length(5);
  } catch (const odtc::Error &error) {
    std::printf("%d %s\n", error.code, error.what());
  }
  return 0;
}
