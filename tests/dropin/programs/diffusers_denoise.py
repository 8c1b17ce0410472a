"""diffusers: compile_repeated_blocks() of a transformer, and a pipeline with a compiled U-Net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from diffusers import DDIMPipeline, DDIMScheduler, FluxTransformer2DModel, UNet2DModel
from diffusers.utils.torch_utils import is_compiled_module


def main(backend: str, folder: Path) -> Any:
    flux = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    ).eval()
    flux.compile_repeated_blocks(backend=backend, fullgraph=True)
    with torch.no_grad():
        images = [
            flux(
                hidden_states=torch.randn(1, 16, 4),
                encoder_hidden_states=torch.randn(1, 6, 32),
                pooled_projections=torch.randn(1, 32),
                timestep=torch.tensor([step]),
                img_ids=torch.zeros(16, 3),
                txt_ids=torch.zeros(6, 3),
            ).sample
            for step in (1.0, 0.5)
        ]
    unet = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=4,
    )
    pipeline = DDIMPipeline(unet=unet, scheduler=DDIMScheduler())
    pipeline.set_progress_bar_config(disable=True)
    pipeline.unet = torch.compile(pipeline.unet, backend=backend)
    drawn = pipeline(num_inference_steps=3, output_type="np").images
    pipeline.unet._orig_mod.save_pretrained(folder / "unet")
    loaded = UNet2DModel.from_pretrained(folder / "unet")
    return {
        "flux": images,
        "drawn": torch.from_numpy(drawn),
        "compiled": [is_compiled_module(pipeline.unet), is_compiled_module(unet)],
        "loaded": [value for _, value in sorted(loaded.state_dict().items())],
    }
