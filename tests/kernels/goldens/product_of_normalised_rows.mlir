builtin.module {
  tile.kernel "k0_contract" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>, %2: !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[2, 384, 64]>, #dhlo.dims<[24576, 64, 1]>>, %4: !tile.buffer<f32, #dhlo.dims<[s0*s1, 96]>, #dhlo.dims<[96, 1]>>):
    %5 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>
    tile.contract %5, %3 into %4 batch <[]> extents <[s0*s1, 96, 384]> packed : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>, !tile.buffer<f32, #dhlo.dims<[2, 384, 64]>, #dhlo.dims<[24576, 64, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0*s1, 96]>, #dhlo.dims<[96, 1]>> {
    ^bb0(%6: index, %7: index, %8: f32):
      tile.yield %8 : f32
    } prologue {
    ^bb0(%9: index):
      %10 = tile.lanes <[384]> ["sum"] -> f32 {
      ^bb0(%11: index):
        %12 = tile.load %0[%9, %11] : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>> -> f32
        tile.yield %12 : f32
      }
      %13 = arith.constant 3.840000e+02 : f32
      %14 = arith.divf %10, %13 : f32
      %15 = tile.lanes <[384]> ["sum"] -> f32 {
      ^bb0(%16: index):
        %17 = tile.load %0[%9, %16] : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>> -> f32
        %18 = arith.subf %17, %14 : f32
        %19 = arith.mulf %18, %18 : f32
        tile.yield %19 : f32
      }
      %20 = arith.divf %15, %13 : f32
      %21 = arith.constant 1.000000e-05 : f32
      %22 = arith.addf %20, %21 : f32
      %23 = math.rsqrt %22 : f32
      tile.lanes <[384]> [] {
      ^bb0(%24: index):
        %25 = tile.load %0[%9, %24] : !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>> -> f32
        %26 = arith.subf %25, %14 : f32
        %27 = arith.mulf %26, %23 : f32
        %28 = tile.load %1[%24] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %29 = arith.mulf %27, %28 : f32
        %30 = tile.load %2[%24] : !tile.buffer<f32, #dhlo.dims<[384]>, #dhlo.dims<[1]>> -> f32
        %31 = arith.addf %29, %30 : f32
        tile.store %31, %5[%9, %24] : f32, !tile.buffer<f32, #dhlo.dims<[s0*s1, 384]>, #dhlo.dims<[384, 1]>>
        tile.yield
      }
    }
  }
}
