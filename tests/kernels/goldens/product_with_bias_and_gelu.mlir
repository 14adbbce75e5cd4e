builtin.module {
  tile.kernel "k0_contract" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[2, 384, 64]>, #dhlo.dims<[24576, 64, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[96]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0*s1, 96]>, #dhlo.dims<[96, 1]>>):
    tile.contract %0, %1 into %3 batch <[]> extents <[s0*s1, 96, 384]> packed : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, !tile.buffer<f32, #dhlo.dims<[2, 384, 64]>, #dhlo.dims<[24576, 64, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0*s1, 96]>, #dhlo.dims<[96, 1]>> {
    ^bb0(%4: index, %5: index, %6: f32):
      %7 = tile.load %2[%5] : !tile.buffer<f32, #dhlo.dims<[96]>, #dhlo.dims<[1]>> -> f32
      %8 = arith.addf %6, %7 : f32
      %9 = arith.constant 0.707106769 : f32
      %10 = arith.mulf %8, %9 : f32
      %11 = math.erf %10 : f32
      %12 = arith.constant 5.000000e-01 : f32
      %13 = arith.mulf %8, %12 : f32
      %14 = arith.constant 1.000000e+00 : f32
      %15 = arith.addf %11, %14 : f32
      %16 = arith.mulf %13, %15 : f32
      tile.yield %16 : f32
    }
  }
}
