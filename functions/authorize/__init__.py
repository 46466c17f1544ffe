"""Tell API Gateway who asks and what they may see."""
