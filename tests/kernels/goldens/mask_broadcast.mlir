builtin.module {
  tile.kernel "k0_loop" symbols ["s0", "s1", "s2"] {
  ^bb0(%0: !tile.buffer<i64, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s2, s1, s1]>, #dhlo.dims<[s1*s1, s1, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s2, s1, s1]>, #dhlo.dims<[s1*s1, s1, 1]>>):
    tile.parallel <[s2, s1]> {
    ^bb0(%3: index, %4: index):
      %5 = tile.size <[s0]>
      %6 = tile.size <[1]>
      %7 = tile.size <[0]>
      tile.lanes <[s1]> [] {
      ^bb0(%8: index):
        %9 = arith.constant 1.000000e+00 : f32
        %10 = arith.cmpi eq, %5, %6 : index
        %11 = arith.select %10, %7, %3 : index
        %12 = tile.load %0[%11, %8] : !tile.buffer<i64, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> i64
        %13 = arith.sitofp %12 : i64 to f32
        %14 = arith.subf %9, %13 : f32
        %15 = arith.constant -1.000000e+09 : f32
        %16 = arith.mulf %14, %15 : f32
        %17 = tile.load %1[%3, %4, %8] : !tile.buffer<f32, #dhlo.dims<[s2, s1, s1]>, #dhlo.dims<[s1*s1, s1, 1]>> -> f32
        %18 = arith.addf %17, %16 : f32
        tile.store %18, %2[%3, %4, %8] : f32, !tile.buffer<f32, #dhlo.dims<[s2, s1, s1]>, #dhlo.dims<[s1*s1, s1, 1]>>
        tile.yield
      }
    }
  }
}
