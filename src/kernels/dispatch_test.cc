#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernels.h"

namespace slotstream::kernels {
namespace {

using testing::HasSubstr;

TEST(DispatchTest, ScalarIsAlwaysThereAndFirst) {
  ASSERT_FALSE(AvailableKernels().empty());
  EXPECT_EQ(AvailableKernels().front()->name, "scalar");
}

TEST(DispatchTest, EveryAvailableTableIsSelectedByItsName) {
  for (const KernelTable* table : AvailableKernels()) {
    const auto selected = SelectKernels(table->name);
    ASSERT_TRUE(selected) << table->name;
    EXPECT_EQ(*selected, table);
  }
}

TEST(DispatchTest, AutoIsTheFastest) {
  const auto selected = SelectKernels("auto");
  ASSERT_TRUE(selected);
  EXPECT_EQ(*selected, AvailableKernels().back());
}

TEST(DispatchTest, AnUnknownNameListsThoseThereAre) {
  const auto selected = SelectKernels("altivec");
  ASSERT_FALSE(selected);
  EXPECT_EQ(selected.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(selected.error().message, HasSubstr("no kernels called 'altivec'"));
  EXPECT_THAT(selected.error().message, HasSubstr("auto, scalar"));
  EXPECT_FALSE(SelectKernels(""));
}

#if defined(__x86_64__)
TEST(DispatchTest, KernelsThatTheProcessorLacksAreNamedSo) {
  if (AvailableKernels().back()->name == "amx") GTEST_SKIP() << "this processor lacks nothing";
  const auto selected = SelectKernels("amx");
  ASSERT_FALSE(selected);
  EXPECT_EQ(selected.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(selected.error().message, HasSubstr("lacks "));
}
#endif

}  // namespace
}  // namespace slotstream::kernels
