from paper.command import main

main()
