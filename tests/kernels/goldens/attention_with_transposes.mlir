builtin.module {
  tile.kernel "k0_attend" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, s1]>, #dhlo.dims<[s1, 0, 0, 1]>>, %4: !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>):
    tile.attend %0, %1, %2 into %4 mask %3 : !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, s1]>, #dhlo.dims<[s1, 0, 0, 1]>> extents <[s0, 12, 12, s1, s1, 32, 32]> scale 1.250000e-01 : f64 : !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0, 12, s1, 32]>, #dhlo.dims<[384*s1, 32, 384, 1]>>
  }
}
