"""The pictures, one file a subject; how they look is in `hierbench.analysis.style`. No display is needed."""
