tile.kernel "k0_reduce" symbols ["s0", "s1"] {
^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>):
  tile.lanes <[s1]> [] {
  ^bb0(%2: index):
    %3 = tile.size <[0]>
    %4 = tile.loop <[s0]> ["sum"] -> f32 {
    ^bb0(%5: index):
      %6 = tile.load %0[%5, %2] : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
      tile.yield %6 : f32
    }
    tile.store %4, %1[%2] : f32, !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
    tile.yield
  }
}
